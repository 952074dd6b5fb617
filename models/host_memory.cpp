// SPDX-License-Identifier: Apache-2.0
#include "models/host_memory.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "runtime/hash.hpp"
#include "runtime/log.hpp"
#include "runtime/random.hpp"
#include "runtime/records.hpp"
#include "runtime/system_error.hpp"

namespace millrace {

namespace {

/// A request for the file with this hash.
struct question {
  std::array<char, 2 * sizeof(sha256_digest)> hash;
  uint64_t bytes = 0;
};

/// Carries the file's descriptor if it is there.
struct answer {
  bool is_there = false;
};

/// Connections that may wait to be accepted.
constexpr int backlog = 64;
constexpr auto suffix = ".socket";
constexpr int whole_seals =
  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

/// Creates a folder that only this user can enter; accepts an existing one.
result<void> make_own_folder(const std::string& path) {
  if (::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    return system_error(path, "make it");
  struct stat x {};
  if (::lstat(path.c_str(), &x) != 0)
    return system_error(path, "look at it");
  if (!S_ISDIR(x.st_mode) || x.st_uid != ::geteuid()
      || (x.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return error{ec::forbidden,
                 path + ": expected a folder of this user, with mode 0700"};
  return {};
}

result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  if (path.size() >= sizeof out.sun_path)
    return error{ec::unavailable, path + ": too long for a socket's"};
  path.copy(out.sun_path, path.size());
  return out;
}

int bind_to(const file_descriptor& x, const sockaddr_un& to) {
  return ::bind(x.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

/// Whether the peer is a process of this user.
bool is_own(const file_descriptor& connection) {
  ucred other{};
  socklen_t n = sizeof other;
  return ::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &other, &n)
           == 0
         && other.uid == ::geteuid();
}

/// The right to read the file with this hash into memory. One process per
/// folder has it at a time, until the descriptor is closed. None while another
/// process has it.
file_descriptor claim(const std::string& folder, const std::string& hash) {
  auto path = std::filesystem::path{folder}.parent_path().string() + "/claims";
  auto both = folder + hash;
  auto number = sha256_hex(std::as_bytes(std::span{both})).substr(0, 15);
  file_descriptor out{
    ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR)};
  struct flock one {};
  one.l_type = F_WRLCK;
  one.l_whence = SEEK_SET;
  // Locks one byte of an empty file; the offset is derived from the hash.
  one.l_start = static_cast<off_t>(std::stoull(number, nullptr, 16));
  one.l_len = 1;
  if (out && ::fcntl(out.get(), F_OFD_SETLK, &one) != 0)
    out = file_descriptor{};
  return out;
}

/// Connects to a process; none if it has ended: then its socket is removed.
file_descriptor connect_to(const std::string& socket) {
  auto to = address_of(socket);
  file_descriptor out{
    ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!to || !out)
    return file_descriptor{};
  if (::connect(out.get(), reinterpret_cast<const sockaddr*>(&*to), sizeof *to)
      == 0)
    return out;
  if (errno == ECONNREFUSED)
    ::unlink(socket.c_str());
  return file_descriptor{};
}

/// The file with this hash in another process; none if it has no such file or
/// has ended.
file_descriptor ask(const std::string& socket, const question& what) {
  auto connection = connect_to(socket);
  answer said;
  std::vector<file_descriptor> files;
  if (!connection || !is_own(connection) || !send_record(connection, what)
      || receive_record(connection, said, steady_now() + host_memory::patience,
                        &files)
           != received::record
      || !said.is_there || files.size() != 1)
    return file_descriptor{};
  return std::move(files[0]);
}

/// The sockets of all processes that use a folder.
std::vector<std::string> sockets_in(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code failed;
  std::filesystem::directory_iterator i{folder, failed}, end;
  for (; !failed && i != end; i.increment(failed))
    if (i->path().extension() == suffix)
      out.push_back(i->path().string());
  return out;
}

/// Removes sockets and folders of killed processes, for all host names.
void tidy_up(const std::string& above) {
  std::error_code failed;
  std::filesystem::directory_iterator i{above, failed}, end;
  for (; !failed && i != end; i.increment(failed))
    for (auto& socket : sockets_in(i->path().string()))
      if (!connect_to(socket))
        ::rmdir(i->path().c_str()); // fails if a process still uses the folder
}

/// Whether a file of `bytes` bytes is sealed, so that no process can change it.
bool is_sealed(const file_descriptor& x, uint64_t bytes) {
  struct stat s {};
  return (::fcntl(x.get(), F_GET_SEALS) & whole_seals) == whole_seals
         && ::fstat(x.get(), &s) == 0
         && static_cast<uint64_t>(s.st_size) == bytes;
}

} // namespace

std::string host_memory::folder_of(const std::string& host) {
  auto name = sha256_hex(std::as_bytes(std::span{host})).substr(0, 16);
  return "/dev/shm/millrace-" + std::to_string(::geteuid()) + "/" + name;
}

result<std::shared_ptr<host_memory>>
host_memory::join(const std::string& folder) {
  auto above = std::filesystem::path{folder}.parent_path().string();
  for (auto& x : {above, folder})
    if (auto made = make_own_folder(x); !made)
      return made.failure();
  tidy_up(above);
  std::shared_ptr<host_memory> out{new host_memory{folder}};
  auto ends = make_connection();
  if (!ends)
    return ends.failure();
  out->end_ = std::move(*ends);
  auto shown = out->listen();
  // The last user of the folder has just removed it.
  if (!shown && make_own_folder(folder))
    shown = out->listen();
  if (!shown)
    return shown.failure();
  out->thread_.post([x = out.get()] { x->serve(); });
  return out;
}

host_memory::~host_memory() {
  end_.second = file_descriptor{};
  if (!name_.empty())
    ::unlink((folder_ + "/" + name_).c_str());
  ::rmdir(folder_.c_str()); // fails if other processes use the folder
}

/// Creates the socket under a hidden name and renames it once it accepts
/// connections, so that other processes never take it for a dead one.
result<void> host_memory::listen() {
  listening_ = file_descriptor{
    ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  auto name = std::to_string(::getpid()) + "-" + std::to_string(entropy());
  auto hidden = folder_ + "/" + name;
  auto address = address_of(hidden);
  if (!address)
    return address.failure();
  if (!listening_ || bind_to(listening_, *address) != 0
      || ::listen(listening_.get(), backlog) != 0
      || ::rename(hidden.c_str(), (hidden + suffix).c_str()) != 0)
    return system_error(hidden, "listen there");
  name_ = name + suffix;
  return {};
}

/// Answers requests until the destructor runs.
void host_memory::serve() {
  for (;;) {
    std::array<pollfd, 2> some{pollfd{listening_.get(), POLLIN, 0},
                               pollfd{end_.first.get(), POLLIN, 0}};
    if (::poll(some.data(), some.size(), -1) < 0 && errno != EINTR)
      return;
    if (some[1].revents != 0)
      return;
    file_descriptor connection{
      ::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    if (!connection) // too many open files, or the client has closed
      wait_for(end_.first, steady_now() + patience);
    question what;
    if (!connection || !is_own(connection)
        || receive_record(connection, what, steady_now() + patience)
             != received::record)
      continue;
    auto file = find_here({what.hash.data(), what.hash.size()});
    if (file && file->bytes() == what.bytes)
      send_record(connection, answer{true}, std::array{file->file().get()});
    else
      send_record(connection, answer{false});
  }
}

std::shared_ptr<arriving_file> host_memory::find_here(const std::string& hash) {
  std::lock_guard guard{mutex_};
  auto i = whole_.find(hash);
  return i == whole_.end() ? nullptr : i->second.lock();
}

std::shared_ptr<arriving_file> host_memory::find(const std::string& path,
                                                 const std::string& hash,
                                                 const chunk_list& chunks,
                                                 uint64_t bytes) {
  if (auto here = find_here(hash))
    return here;
  question what;
  hash.copy(what.hash.data(), what.hash.size());
  what.bytes = bytes;
  for (auto& socket : sockets_in(folder_)) {
    if (socket == folder_ + "/" + name_)
      continue;
    auto file = ask(socket, what);
    if (!file || !is_sealed(file, bytes))
      continue;
    if (auto all = map_open_file(std::move(file), path)) {
      auto out = arriving_file::sealed(path, std::move(*all), chunks);
      publish(hash, out);
      return out;
    }
  }
  return nullptr;
}

void host_memory::publish(const std::string& hash,
                          const std::weak_ptr<arriving_file>& whole) {
  std::lock_guard guard{mutex_};
  std::erase_if(whole_, [](auto& x) { return x.second.expired(); });
  whole_[hash] = whole;
}

result<std::shared_ptr<arriving_file>> host_memory::open(std::string path,
                                                         uint64_t bytes,
                                                         chunk_list chunks,
                                                         file_descriptor from) {
  auto hash = chunks.file_hash();
  auto mine = std::make_shared<file_descriptor>();
  if (from)
    *mine = claim(folder_, hash);
  if (auto there = find(path, hash, chunks, bytes))
    return there;
  if (from && !*mine)
    return error{ec::conflict, path + ": another process reads it", {}};
  auto out = arriving_file::make(std::move(path), bytes, std::move(chunks),
                                 std::move(from));
  if (!out)
    return out;
  (*out)->when({0, (*out)->chunks()},
               [self = weak_from_this(), weak = std::weak_ptr{*out},
                hash](const result<void>& there) {
                 if (auto x = self.lock(); x && there)
                   x->publish(hash, weak);
               });
  (*out)->keep_while_read(std::move(mine));
  return out;
}

memory_maker memory_shared_on(const std::string& host) {
  auto x = host_memory::join(host_memory::folder_of(host));
  if (x)
    return [all = *x](auto path, auto bytes, auto chunks, auto from) {
      return all->open(std::move(path), bytes, std::move(chunks),
                       std::move(from));
    };
  log_event(log_level::warning, "cache", "memory_not_shared",
            {{"error", x.failure().text}});
  return arriving_file::make;
}

} // namespace millrace

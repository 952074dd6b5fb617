// SPDX-License-Identifier: Apache-2.0
#include "runtime/bytes.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <linux/openat2.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/sizes.hpp"
#include "runtime/system_error.hpp"

namespace millrace {

namespace {

/// Aligned for all dtypes.
struct alignas(16) block {
  std::byte bytes[16];
};

} // namespace

shared_bytes shared_bytes::copy_of(const_bytes bytes) {
  if (bytes.empty())
    return {};
  // One allocation for the bytes and the reference count.
  auto owner =
    std::make_shared_for_overwrite<block[]>((bytes.size() + 15) / 16);
  std::memcpy(owner.get(), bytes.data(), bytes.size());
  return {{reinterpret_cast<const std::byte*>(owner.get()), bytes.size()},
          std::move(owner)};
}

shared_bytes shared_bytes::slice(size_t offset, size_t n) const {
  MILLRACE_ASSERT(offset <= size() && n <= size() - offset);
  return {view_.subspan(offset, n), owner_};
}

byte_buffer::byte_buffer(size_t n) : size_(n) {
  auto rounded = rounded_up(n, 64);
  auto* p = rounded == 0 ? nullptr : std::aligned_alloc(64, rounded);
  if (rounded != 0 && p == nullptr)
    throw std::bad_alloc{};
  data_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(p), std::free);
}

shared_bytes byte_buffer::freeze() && {
  auto view = const_bytes{data_.get(), size_};
  return {view, std::move(data_)};
}

namespace {

/// O_NONBLOCK: opening a pipe must not wait for a writer.
constexpr int to_read = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

} // namespace

result<mapped_file> map_open_file(file_descriptor fd, const std::string& path) {
  struct stat info;
  if (!fd || ::fstat(fd.get(), &info) != 0)
    return system_error(path, "open");
  if (!S_ISREG(info.st_mode))
    return error{ec::unavailable, path + ": is not a regular file"};
  auto n = static_cast<size_t>(info.st_size);
  if (n == 0)
    return mapped_file{std::move(fd), {}};
  auto* p = ::mmap(nullptr, n, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (p == MAP_FAILED)
    return system_error(path, "map");
  auto owner = std::shared_ptr<const void>(
    p, [n](const void* x) { ::munmap(const_cast<void*>(x), n); });
  auto view = const_bytes{static_cast<const std::byte*>(p), n};
  return mapped_file{std::move(fd), {view, std::move(owner)}};
}

result<mapped_file> map_file(const std::string& path) {
  return map_open_file(file_descriptor{::open(path.c_str(), to_read)}, path);
}

result<file_descriptor> open_file_beneath(const std::string& directory,
                                          const std::string& path) {
  file_descriptor in{
    ::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (!in)
    return system_error(directory, "open");
  open_how how{};
  how.flags = to_read;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  file_descriptor out{static_cast<int>(
    ::syscall(SYS_openat2, in.get(), path.c_str(), &how, sizeof how))};
  if (!out)
    return system_error(directory + "/" + path, "open");
  return out;
}

result<file_descriptor> seal_in_memory(std::span<const const_bytes> parts) {
  file_descriptor out{
    ::memfd_create("millrace-sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  auto whole = static_cast<bool>(out);
  for (auto rest : parts)
    while (whole && !rest.empty()) {
      auto n = ::write(out.get(), rest.data(), rest.size());
      whole = n >= 0;
      rest = rest.subspan(whole ? static_cast<size_t>(n) : 0);
    }
  constexpr int seals =
    F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (!whole || ::fcntl(out.get(), F_ADD_SEALS, seals) != 0)
    return system_error("a file in memory", "write");
  return out;
}

namespace {

result<std::string> read_open_file(const file_descriptor& fd,
                                   const std::string& path, size_t max) {
  std::string out;
  char buf[65536];
  for (;;) {
    auto n = ::read(fd.get(), buf, sizeof buf);
    if (n < 0)
      return system_error(path, "read");
    if (n == 0)
      return out;
    out.append(buf, static_cast<size_t>(n));
    if (out.size() > max)
      return error{ec::too_large,
                   path + ": has more than " + std::to_string(max) + " bytes"};
  }
}

} // namespace

result<std::string> read_file(const std::string& path, size_t max) {
  file_descriptor fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd)
    return system_error(path, "open");
  return read_open_file(fd, path, max);
}

result<std::string> read_file_beneath(const std::string& directory,
                                      const std::string& path, size_t max) {
  auto fd = open_file_beneath(directory, path);
  if (!fd)
    return fd.failure();
  auto whole = directory + "/" + path;
  struct stat info;
  if (::fstat(fd->get(), &info) != 0)
    return system_error(whole, "open");
  if (!S_ISREG(info.st_mode))
    return error{ec::unavailable, whole + ": is not a regular file"};
  return read_open_file(*fd, whole, max);
}

namespace {

result<void> write_new_file(const std::string& path, const_bytes content) {
  file_descriptor fd{
    ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (!fd)
    return system_error(path, "create");
  for (auto rest = content; !rest.empty();) {
    auto n = ::write(fd.get(), rest.data(), rest.size());
    if (n < 0)
      return system_error(path, "write");
    rest = rest.subspan(static_cast<size_t>(n));
  }
  if (::fsync(fd.get()) != 0)
    return system_error(path, "sync");
  return {};
}

} // namespace

result<void> write_file(const std::string& path, const_bytes content) {
  std::error_code none;
  auto there = std::filesystem::status(path, none);
  if (std::filesystem::exists(there)
      && !std::filesystem::is_regular_file(there))
    return error{ec::unavailable, path + ": is not a regular file"};
  auto temporary = path + ".tmp." + std::to_string(::getpid());
  auto done = write_new_file(temporary, content);
  if (done && ::rename(temporary.c_str(), path.c_str()) != 0)
    done = system_error(path, "replace");
  if (!done) {
    ::unlink(temporary.c_str());
    return done;
  }
  auto folder = std::filesystem::path{path}.parent_path().string();
  file_descriptor dir{::open(folder.empty() ? "." : folder.c_str(),
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!dir || ::fsync(dir.get()) != 0)
    return system_error(folder, "sync");
  return {};
}

} // namespace millrace

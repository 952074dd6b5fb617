// SPDX-License-Identifier: Apache-2.0
#include "models/arriving_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace millrace {

namespace {

error system_error(const std::string& path, const char* what) {
  return {ec::unavailable, path + ": cannot " + what
                             + " memory for it: " + std::strerror(errno)};
}

/// Nobody who is handed it can write it, whatever it maps; what this process
/// has mapped already it can.
constexpr int early_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
constexpr int last_seals = F_SEAL_WRITE | F_SEAL_SEAL;

} // namespace

result<std::shared_ptr<arriving_file>>
arriving_file::make(std::string path, uint64_t bytes, chunk_list chunks,
                    file_descriptor from) {
  MILLRACE_ASSERT(chunks.size() == chunks_in(bytes));
  file_descriptor file{
    ::memfd_create("millrace-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    return system_error(path, "get");
  std::span<std::byte> room;
  if (bytes > 0) {
    auto* p =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (p == MAP_FAILED)
      return system_error(path, "map");
    ::madvise(p, bytes, MADV_HUGEPAGE); // where the system gives any
    room = {static_cast<std::byte*>(p), bytes};
  }
  // Opened anew: what is mapped of a file that was opened to be written counts
  // as written for as long as it is mapped.
  auto again = "/proc/self/fd/" + std::to_string(file.get());
  file_descriptor shown{::open(again.c_str(), O_RDONLY | O_CLOEXEC)};
  auto seen = map_open_file(std::move(shown), path);
  if (!seen || ::fcntl(file.get(), F_ADD_SEALS, early_seals) != 0) {
    auto why = seen ? system_error(path, "seal") : std::move(seen.failure());
    if (!room.empty())
      ::munmap(room.data(), room.size());
    return why;
  }
  std::shared_ptr<arriving_file> out{new arriving_file{
    std::move(path), std::move(chunks), std::move(*seen), room}};
  out->in_memory_ = true;
  out->written_ = std::move(file);
  out->from_ = std::move(from);
  if (bytes == 0)
    out->seal();
  return out;
}

std::shared_ptr<arriving_file>
arriving_file::over(std::string path, mapped_file x, chunk_list chunks) {
  MILLRACE_ASSERT(chunks.size() == chunks_in(x.content.size()));
  return std::shared_ptr<arriving_file>{
    new arriving_file{std::move(path), std::move(chunks), std::move(x), {}}};
}

arriving_file::arriving_file(std::string path, chunk_list chunks, mapped_file x,
                             std::span<std::byte> room)
  : path_(std::move(path)),
    chunks_(std::move(chunks)),
    file_(std::move(x.file)),
    content_(std::move(x.content)),
    room_(room),
    states_(chunks_.size()) {
}

arriving_file::~arriving_file() {
  if (!room_.empty())
    ::munmap(room_.data(), room_.size());
}

bool arriving_file::claim(size_t chunk) {
  std::lock_guard guard{mutex_};
  auto& x = states_.at(chunk);
  return x == state::absent && (x = state::coming, true);
}

/// Whether a chunk that was claimed is what it should be: then it is there.
result<void> arriving_file::settle(size_t chunk) {
  auto begin = chunk * chunk_bytes;
  auto n = std::min<uint64_t>(chunk_bytes, bytes() - begin);
  auto right = chunks_.matches(chunk, content_.view().subspan(begin, n));
  settle(chunk, right);
  if (right)
    return {};
  return error{ec::bad_config, path_ + ": its bytes from "
                                 + std::to_string(begin)
                                 + " on have not the SHA-256 they should"};
}

result<void> arriving_file::put(size_t chunk, const_bytes content) {
  auto begin = chunk * chunk_bytes;
  auto n = std::min<uint64_t>(chunk_bytes, bytes() - begin);
  if (content.size() != n)
    return error{ec::bad_config, path_ + ": a chunk has "
                                   + std::to_string(content.size())
                                   + " bytes, expected " + std::to_string(n)};
  if (!claim(chunk))
    return {};
  if (room_.empty()) { // for it cannot be whole, whose chunk was claimed
    settle(chunk, false);
    return error{ec::bad_config,
                 path_
                   + ": is used where it lies, and takes nothing from"
                     " elsewhere"};
  }
  std::memcpy(room_.data() + begin, content.data(), n);
  return settle(chunk);
}

result<void> arriving_file::verify(size_t chunk) {
  if (!claim(chunk))
    return {};
  if (from_)
    if (auto done = read(chunk); !done) {
      settle(chunk, false);
      return done;
    }
  return settle(chunk);
}

/// Of one that was claimed.
result<void> arriving_file::read(size_t chunk) {
  auto begin = chunk * chunk_bytes;
  auto rest =
    room_.subspan(begin, std::min<uint64_t>(chunk_bytes, bytes() - begin));
  while (!rest.empty()) {
    auto at = static_cast<off_t>(rest.data() - room_.data());
    auto n = ::pread(from_.get(), rest.data(), rest.size(), at);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return error{ec::unavailable,
                   path_ + ": cannot be read from " + std::to_string(at)
                     + " on: "
                     + (n == 0 ? "it ends there" : std::strerror(errno))};
    rest = rest.subspan(static_cast<size_t>(n));
  }
  return {};
}

void arriving_file::settle(size_t chunk, bool there) {
  std::vector<waiting> done;
  {
    std::lock_guard guard{mutex_};
    states_[chunk] = there ? state::there : state::absent;
    if (!there)
      return;
    if (++there_ == chunks() && !room_.empty())
      seal();
    for (auto& x : waiting_)
      x.missing -= x.what.first <= chunk && chunk < x.what.last;
    auto first = std::partition(waiting_.begin(), waiting_.end(),
                                [](auto& x) { return x.missing > 0; });
    std::move(first, waiting_.end(), std::back_inserter(done));
    waiting_.erase(first, waiting_.end());
  }
  for (auto& x : done)
    x.then({});
}

/// Only what is mapped to be written keeps it from being sealed.
void arriving_file::seal() {
  if (!room_.empty())
    ::munmap(room_.data(), room_.size());
  room_ = {};
  auto sealed = ::fcntl(written_.get(), F_ADD_SEALS, last_seals) == 0;
  MILLRACE_ASSERT(sealed);
  written_ = file_descriptor{};
  from_ = file_descriptor{};
}

void arriving_file::give_up(error why) {
  std::vector<waiting> done;
  {
    std::lock_guard guard{mutex_};
    if (!given_up_)
      given_up_ = std::move(why);
    done.swap(waiting_);
  }
  for (auto& x : done)
    x.then(*given_up_);
}

void arriving_file::when(chunk_range x, arrived then) {
  result<void> now;
  {
    std::lock_guard guard{mutex_};
    auto missing = static_cast<size_t>(
      std::count_if(states_.begin() + static_cast<ptrdiff_t>(x.first),
                    states_.begin() + static_cast<ptrdiff_t>(x.last),
                    [](auto y) { return y != state::there; }));
    if (missing > 0 && !given_up_) {
      waiting_.push_back({x, missing, std::move(then)});
      return;
    }
    if (missing > 0)
      now = *given_up_;
  }
  then(now);
}

result<void> arriving_file::wait(chunk_range x) {
  // Shared: who sets it may not be through when it is known here.
  auto done = std::make_shared<std::promise<result<void>>>();
  when(x, [done](const result<void>& how) { done->set_value(how); });
  return done->get_future().get();
}

bool arriving_file::is_given_up() const {
  std::lock_guard guard{mutex_};
  return given_up_.has_value();
}

bool arriving_file::has(size_t chunk) const {
  return has(chunk_range{chunk, chunk + 1});
}

bool arriving_file::has(chunk_range x) const {
  std::lock_guard guard{mutex_};
  return std::all_of(states_.begin() + static_cast<ptrdiff_t>(x.first),
                     states_.begin() + static_cast<ptrdiff_t>(x.last),
                     [](auto y) { return y == state::there; });
}

size_t arriving_file::chunks_there() const {
  std::lock_guard guard{mutex_};
  return there_;
}

} // namespace millrace

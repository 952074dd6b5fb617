// SPDX-License-Identifier: Apache-2.0
#include "models/arriving_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <utility>

#include "runtime/hash.hpp"
#include "runtime/system_error.hpp"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace millrace {

namespace {

constexpr int early_seals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr int last_seals = F_SEAL_WRITE | F_SEAL_SEAL;

/// An overloaded error: the file itself is not at fault.
error no_memory(const std::string& path, const char* what) {
  return {ec::overloaded, system_error(path, what).text};
}

/// The beginning of a hash, for error texts.
std::string short_hex(const sha256_digest& x) {
  return to_hex(x).substr(0, 16) + "...";
}

/// Writes all of `content` at that offset. Uses pwrite(2), not a mapping: for a
/// mapping the system would clear each page before the write.
bool write_at(const file_descriptor& to, uint64_t at, const_bytes content) {
  while (!content.empty()) {
    auto n = ::pwrite(to.get(), content.data(), content.size(),
                      static_cast<off_t>(at));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    at += static_cast<uint64_t>(n);
    content = content.subspan(static_cast<size_t>(n));
  }
  return true;
}

} // namespace

result<std::shared_ptr<arriving_file>>
arriving_file::make(std::string path, uint64_t bytes, chunk_list chunks,
                    file_descriptor from) {
  if (chunks.bytes_of_chunk() != chunk_bytes)
    return error{ec::bad_config, path + ": has chunks of "
                                   + std::to_string(chunks.bytes_of_chunk())
                                   + " bytes, expected "
                                   + std::to_string(chunk_bytes)};
  MILLRACE_ASSERT(chunks.size() == chunks_in(bytes));
  file_descriptor file{
    ::memfd_create(memory_name, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  // With this mode, a receiver that runs as another user cannot reopen the file
  // for writing.
  if (!file || ::fchmod(file.get(), S_IRUSR) != 0
      || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    return system_error(path, "get memory for it");
  // The file is opened again, read-only: a mapping of a descriptor that is open
  // for writing would block the write seal.
  auto again = "/proc/self/fd/" + std::to_string(file.get());
  file_descriptor shown{::open(again.c_str(), O_RDONLY | O_CLOEXEC)};
  auto seen = map_open_file(std::move(shown), path);
  if (!seen)
    return seen.failure();
  if (::fcntl(file.get(), F_ADD_SEALS, early_seals) != 0)
    return system_error(path, "seal memory for it");
  auto& content = seen->content; // where the system has larger pages
  ::madvise(const_cast<std::byte*>(content.data()), content.size(),
            MADV_HUGEPAGE);
  std::shared_ptr<arriving_file> out{
    new arriving_file{std::move(path), std::move(chunks), std::move(*seen)}};
  out->in_memory_ = true;
  out->written_ = std::move(file);
  out->from_ = std::move(from);
  if (bytes == 0)
    if (auto done = out->seal(); !done)
      return done.failure();
  return out;
}

std::shared_ptr<arriving_file>
arriving_file::over(std::string path, mapped_file file, chunk_list chunks) {
  MILLRACE_ASSERT(chunks.size() == chunks_in(file.content.size()));
  return std::shared_ptr<arriving_file>{
    new arriving_file{std::move(path), std::move(chunks), std::move(file)}};
}

std::shared_ptr<arriving_file>
arriving_file::sealed(std::string path, mapped_file file, chunk_list chunks) {
  auto out = over(std::move(path), std::move(file), std::move(chunks));
  out->in_memory_ = true;
  out->there_ = out->chunks();
  std::fill(out->states_.begin(), out->states_.end(), state::there);
  return out;
}

std::shared_ptr<arriving_file>
arriving_file::reserved(std::string path, shared_bytes content,
                        chunk_list chunks, where place, bool whole) {
  MILLRACE_ASSERT(chunks.size()
                  == chunks_in(content.size(), chunks.bytes_of_chunk()));
  std::shared_ptr<arriving_file> out{
    new arriving_file{std::move(path),
                      std::move(chunks),
                      {file_descriptor{}, std::move(content)}}};
  out->in_memory_ = place == where::memory;
  out->is_reserved_ = true;
  if (whole) {
    out->there_ = out->chunks();
    std::fill(out->states_.begin(), out->states_.end(), state::there);
  }
  return out;
}

arriving_file::arriving_file(std::string path, chunk_list chunks,
                             mapped_file file)
  : path_(std::move(path)),
    chunks_(std::move(chunks)),
    file_(std::move(file.file)),
    content_(std::move(file.content)),
    states_(chunks_.size()) {
}

size_t arriving_file::bytes_of(size_t chunk) const {
  auto begin = chunk * bytes_of_chunk();
  return std::min<uint64_t>(bytes_of_chunk(), bytes() - begin);
}

bool arriving_file::claim(size_t chunk) {
  std::lock_guard guard{mutex_};
  auto& x = states_.at(chunk);
  return x == state::absent && (x = state::coming, true);
}

result<void> arriving_file::put(size_t chunk, const_bytes content) {
  if (auto n = bytes_of(chunk); content.size() != n)
    return error{ec::bad_config, path_ + ": a chunk has "
                                   + std::to_string(content.size())
                                   + " bytes, expected " + std::to_string(n)};
  if (!claim(chunk))
    return {};
  if (in_memory_)
    return take(chunk, content);
  miss(chunk);
  return error{ec::bad_config,
               path_
                 + ": is used in place, and takes no chunks from elsewhere"};
}

result<void> arriving_file::verify(size_t chunk) {
  if (!claim(chunk))
    return {};
  auto content = find(chunk);
  if (content)
    return take(chunk, *content);
  miss(chunk);
  return content.failure();
}

const_bytes arriving_file::mapped(size_t chunk) const {
  return content_.view().subspan(chunk * bytes_of_chunk(), bytes_of(chunk));
}

result<void> arriving_file::look_again(size_t chunk) const {
  if (in_memory_ || is_reserved_ || chunks_.matches(chunk, mapped(chunk)))
    return {};
  return wrong(chunk, mapped(chunk));
}

/// The bytes of a chunk on the disk. If they are to be copied, they are valid
/// until the next call on this thread.
result<const_bytes> arriving_file::find(size_t chunk) const {
  auto begin = chunk * chunk_bytes;
  auto n = bytes_of(chunk);
  if (!in_memory_ || is_reserved_)
    return mapped(chunk);
  thread_local std::vector<std::byte> part;
  part.resize(chunk_bytes);
  for (size_t have = 0; have < n;) {
    auto got = ::pread(from_.get(), part.data() + have, n - have,
                       static_cast<off_t>(begin + have));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return system_error(path_, "read it");
    if (got == 0)
      return error{ec::unavailable, path_ + ": ends after "
                                      + std::to_string(begin + have) + " of "
                                      + std::to_string(bytes()) + " bytes"};
    have += static_cast<size_t>(got);
  }
  return const_bytes{part}.first(n);
}

error arriving_file::wrong(size_t chunk, const_bytes content) const {
  auto begin = chunk * bytes_of_chunk();
  if (is_reserved_)
    return {ec::bad_config, path_ + ": its bytes " + std::to_string(begin)
                              + " to " + std::to_string(begin + content.size())
                              + " are not those of this content"};
  return {ec::bad_config, path_ + ": its bytes " + std::to_string(begin)
                            + " to " + std::to_string(begin + content.size())
                            + " have the SHA-256 " + short_hex(sha256(content))
                            + ", expected "
                            + short_hex(chunks_.hash_of(chunk))};
}

/// Verifies the content of a claimed chunk; if it matches, the chunk is
/// present.
result<void> arriving_file::take(size_t chunk, const_bytes content) {
  auto begin = chunk * bytes_of_chunk();
  auto is_right = is_reserved_ ? content.data() == mapped(chunk).data()
                               : chunks_.matches(chunk, content);
  if (!is_right) {
    miss(chunk);
    return wrong(chunk, content);
  }
  if (in_memory_ && !is_reserved_ && !write_at(written_, begin, content)) {
    auto why = no_memory(path_, "get memory for it");
    miss(chunk);
    return why;
  }
  return settle(chunk);
}

/// Marks a chunk that did not arrive as absent; it may be put again.
void arriving_file::miss(size_t chunk) {
  std::lock_guard guard{mutex_};
  states_[chunk] = state::absent;
}

/// Marks a chunk as present. After the last chunk the file is complete.
result<void> arriving_file::settle(size_t chunk) {
  std::vector<waiting> done;
  bool whole = false;
  {
    std::lock_guard guard{mutex_};
    whole = there_ + 1 == chunks();
    if (whole && in_memory_ && !is_reserved_)
      if (auto sealed = seal(); !sealed) {
        states_[chunk] = state::absent;
        return sealed;
      }
    states_[chunk] = state::there;
    ++there_;
    for (auto& x : waiting_)
      x.missing -= x.what.first <= chunk && chunk < x.what.last;
    auto first = std::partition(waiting_.begin(), waiting_.end(),
                                [](auto& x) { return x.missing > 0; });
    std::move(first, waiting_.end(), std::back_inserter(done));
    waiting_.erase(first, waiting_.end());
  }
  for (auto& x : done)
    x.then({});
  if (whole)
    rest();
  return {};
}

/// Seals the file. The system refuses with EBUSY while it uses a page itself
/// (fcntl(2)), so the call is tried several times.
result<void> arriving_file::seal() {
  constexpr auto most_tries = 8;
  auto sealed = false;
  for (auto i = 0; i < most_tries && !sealed; ++i) {
    sealed = ::fcntl(written_.get(), F_ADD_SEALS, last_seals) == 0;
    if (!sealed && errno != EBUSY)
      break;
  }
  if (!sealed)
    return no_memory(path_, "seal memory for it");
  written_ = file_descriptor{};
  from_ = file_descriptor{};
  return {};
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
  rest();
}

void arriving_file::keep_while_read(std::shared_ptr<const void> owner) {
  std::lock_guard guard{mutex_};
  if (there_ < chunks() && !given_up_)
    kept_.swap(owner);
}

void arriving_file::rest() {
  std::shared_ptr<const void> x;
  std::lock_guard guard{mutex_};
  x.swap(kept_);
}

void arriving_file::when(chunk_range wanted, arrived then) {
  result<void> now;
  {
    std::lock_guard guard{mutex_};
    auto missing = static_cast<size_t>(
      std::count_if(states_.begin() + static_cast<ptrdiff_t>(wanted.first),
                    states_.begin() + static_cast<ptrdiff_t>(wanted.last),
                    [](auto y) { return y != state::there; }));
    if (missing > 0 && !given_up_) {
      waiting_.push_back({wanted, missing, std::move(then)});
      return;
    }
    if (missing > 0)
      now = *given_up_;
  }
  then(now);
}

result<void> arriving_file::wait(chunk_range wanted) {
  // Shared: the thread that sets the promise may still run in set_value after
  // this thread has the result.
  auto done = std::make_shared<std::promise<result<void>>>();
  when(wanted, [done](const result<void>& how) { done->set_value(how); });
  return done->get_future().get();
}

bool arriving_file::is_given_up() const {
  std::lock_guard guard{mutex_};
  return given_up_.has_value();
}

bool arriving_file::has(size_t chunk) const {
  return has(chunk_range{chunk, chunk + 1});
}

bool arriving_file::has(chunk_range wanted) const {
  std::lock_guard guard{mutex_};
  return std::all_of(states_.begin() + static_cast<ptrdiff_t>(wanted.first),
                     states_.begin() + static_cast<ptrdiff_t>(wanted.last),
                     [](auto y) { return y == state::there; });
}

size_t arriving_file::chunks_there() const {
  std::lock_guard guard{mutex_};
  return there_;
}

} // namespace millrace

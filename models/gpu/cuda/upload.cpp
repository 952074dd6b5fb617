// SPDX-License-Identifier: Apache-2.0
#include "models/gpu/cuda/upload.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "models/gpu/cuda/runtime.hpp"

namespace millrace::cuda {

/// The page-locked chunks of an upload. A larger ring would leave the
/// processors' caches before the bus reads it.
struct uploader::ring {
  static constexpr size_t rooms = 4;

  stream on;
  event sent[rooms];
  pinned_pool::block room[rooms]; ///< one chunk each
};

/// One upload: several threads fill the ring, one thread sends from there.
class uploader::running {
public:
  running(char* to, const char* from, size_t bytes, const upload_plan& how,
          ring& with)
    : to_(to),
      from_(from),
      bytes_(bytes),
      part_(how.part),
      ring_(with) {
    for (size_t end = 0, next = std::min(how.first, how.chunk); end < bytes;
         next = std::min(2 * next, how.chunk)) {
      end += std::min(next, bytes - end);
      ends_.push_back(end);
    }
    room_until_ = end_with_room(0);
  }

  /// Copies to the ring until all bytes are copied.
  void fill() {
    while (!is_done())
      if (!fill_part()) {
        std::unique_lock guard{mutex_};
        more_room_.wait(guard,
                        [&] { return next_ < room_until_ || is_done(); });
      }
  }

  /// Sends all chunks, and copies while none is full. Returns when all bytes
  /// are on the GPU.
  void send(const upload_progress& there) {
    for (size_t sent = 0, done = 0; done < ends_.size();) {
      if (is_full(sent)) {
        send_chunk(sent++);
        continue;
      }
      auto& next = ring_.sent[done % rooms];
      if (sent == ends_.size())
        next.wait();
      if (done < sent && next.is_reached()) {
        there(ends_[done]);
        make_room(end_with_room(++done));
      } else if (!fill_part()) {
        std::this_thread::yield();
      }
    }
  }

  /// Makes all threads stop copying.
  void stop() {
    next_ = bytes_;
    make_room(bytes_);
  }

private:
  static constexpr auto rooms = ring::rooms;

  size_t begin_of(size_t chunk) const {
    return chunk == 0 ? 0 : ends_[chunk - 1];
  }

  /// The end of the last chunk that has a place in the ring once `done` chunks
  /// were sent.
  size_t end_with_room(size_t done) const {
    return ends_[std::min(done + rooms, ends_.size()) - 1];
  }

  bool is_done() const { return next_ >= bytes_; }

  bool is_full(size_t chunk) const {
    return chunk < ends_.size()
           && filled_[chunk % rooms] == ends_[chunk] - begin_of(chunk);
  }

  void make_room(size_t until) {
    {
      std::lock_guard guard{mutex_};
      room_until_ = until;
    }
    more_room_.notify_all();
  }

  /// Copies one part to the ring. False when the ring is full.
  bool fill_part() {
    size_t at = next_, chunk, n;
    do {
      if (at >= room_until_) // or all bytes are copied
        return false;
      auto end = std::upper_bound(ends_.begin(), ends_.end(), at);
      chunk = static_cast<size_t>(end - ends_.begin());
      n = std::min(part_, *end - at);
    } while (!next_.compare_exchange_weak(at, at + n));
    auto* room = ring_.room[chunk % rooms].data();
    std::memcpy(room + (at - begin_of(chunk)), from_ + at, n);
    filled_[chunk % rooms] += n;
    return true;
  }

  void send_chunk(size_t chunk) {
    auto slot = chunk % rooms;
    filled_[slot] = 0;
    auto begin = begin_of(chunk);
    check(cudaMemcpyAsync(to_ + begin, ring_.room[slot].data(),
                          ends_[chunk] - begin, cudaMemcpyHostToDevice,
                          ring_.on.get()),
          "copying to the GPU");
    ring_.sent[slot].record(ring_.on.get());
  }

  char* const to_;
  const char* const from_;
  const size_t bytes_, part_;
  ring& ring_;
  std::vector<size_t> ends_;    ///< of all chunks
  std::atomic<size_t> next_{0}; ///< next byte to copy
  /// End of the bytes that the ring has room for.
  std::atomic<size_t> room_until_{0};
  std::mutex mutex_; ///< for waits on more_room_
  std::condition_variable more_room_;
  /// Filled bytes of each chunk in the ring.
  std::atomic<size_t> filled_[rooms] = {};
};

namespace {

/// Threads that the destructor joins.
class joined_threads {
public:
  ~joined_threads() {
    for (auto& x : all_)
      x.join();
  }

  /// False when the system has no thread left.
  template <class F>
  bool start(F job) {
    try {
      all_.emplace_back(job);
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

private:
  std::vector<std::thread> all_;
};

unsigned threads_for(const upload_plan& how, size_t bytes) {
  constexpr unsigned most = 12;
  auto out = how.threads;
  if (out == 0)
    out = std::clamp(std::thread::hardware_concurrency(), 3u, most + 2) - 2;
  return static_cast<unsigned>(
    std::min<size_t>(out, (bytes + how.part - 1) / how.part));
}

} // namespace

uploader::uploader(pinned_pool& staging) : staging_(staging) {
}

uploader::~uploader() = default;

void uploader::copy(char* to, const void* from, size_t bytes, upload_plan how,
                    const upload_progress& there) {
  if (bytes == 0)
    return;
  std::lock_guard guard{mutex_};
  auto mine = ring_ ? std::move(ring_) : std::make_unique<ring>();
  for (auto& x : mine->room)
    if (auto needed = std::min(how.chunk, bytes); x.size() < needed)
      x = staging_.take(needed);
  auto* on = mine->on.get();
  try {
    running all{to, static_cast<const char*>(from), bytes, how, *mine};
    joined_threads others; // fewer, if the system has no more
    try {
      for (auto i = threads_for(how, bytes); i > 1; --i)
        if (!others.start([&] { all.fill(); }))
          break;
      all.send(there);
    } catch (...) {
      all.stop();
      throw;
    }
  } catch (...) { // pending copies read the memory of the ring
    static_cast<void>(cudaStreamSynchronize(on));
    throw;
  }
  ring_ = std::move(mine);
}

} // namespace millrace::cuda

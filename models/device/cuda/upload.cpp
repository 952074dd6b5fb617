// SPDX-License-Identifier: Apache-2.0
#include "models/device/cuda/upload.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace millrace::cuda {

namespace {

/// What all threads of one upload take their chunks from.
struct shared_work {
  char* to;
  const char* from;
  size_t bytes;
  upload_plan how;
  pinned_pool& staging;
  idle<upload_lane>& lanes;
  std::mutex mutex;
  size_t next = 0;           ///< guarded
  size_t taken = 0;          ///< guarded; chunks
  std::exception_ptr failed; ///< guarded

  /// Where the next chunk begins, and its bytes: none, when all is done.
  std::pair<size_t, size_t> take() {
    std::lock_guard guard{mutex};
    // Each thread's first is small, the next twice as large, and so on.
    auto doublings = std::min<size_t>(taken++ / std::max(1u, how.threads), 20);
    auto n = std::min({how.first_chunk << doublings, how.chunk, bytes - next});
    auto at = next;
    next += n;
    return {at, n};
  }

  void fail() {
    std::lock_guard guard{mutex};
    next = bytes; // the others are done, too
    failed = std::current_exception();
  }
};

/// Threads that are joined whatever happens.
class joined_threads {
public:
  ~joined_threads() {
    for (auto& x : all_)
      x.join();
  }

  /// False when the system has none left.
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

/// Fills chunks and sends them until there are none left.
void send_chunks(shared_work& work, upload_lane& lane) {
  for (auto& x : lane.room)
    if (x.size() < work.how.chunk)
      x = work.staging.take(work.how.chunk);
  auto* on = lane.on.get();
  for (int turn = 0;; turn ^= 1) {
    auto [at, n] = work.take();
    if (n == 0)
      break;
    lane.sent[turn].wait();
    std::memcpy(lane.room[turn].data(), work.from + at, n);
    check(cudaMemcpyAsync(work.to + at, lane.room[turn].data(), n,
                          cudaMemcpyHostToDevice, on),
          "copying to the GPU");
    lane.sent[turn].record(on);
  }
}

void copy_chunks(shared_work& work) {
  auto lane = work.lanes.take();
  try {
    send_chunks(work, lane);
  } catch (...) { // what is under way reads the lane's memory
    static_cast<void>(cudaStreamSynchronize(lane.on.get()));
    throw;
  }
  check(cudaStreamSynchronize(lane.on.get()), "copying to the GPU");
  work.lanes.give_back(std::move(lane));
}

void copy_on(int gpu, shared_work& work) {
  try {
    check(cudaSetDevice(gpu), "choosing a GPU");
    copy_chunks(work);
  } catch (...) {
    work.fail();
  }
}

unsigned threads_for(const upload_plan& how, size_t chunks) {
  constexpr unsigned most = 12;
  auto out = how.threads;
  if (out == 0)
    out = std::clamp(std::thread::hardware_concurrency(), 3u, most + 2) - 2;
  return static_cast<unsigned>(std::min<size_t>(out, chunks));
}

} // namespace

void upload(char* to, const void* from, size_t bytes, pinned_pool& staging,
            idle<upload_lane>& lanes, upload_plan how) {
  int gpu = 0;
  check(cudaGetDevice(&gpu), "choosing a GPU");
  how.threads = threads_for(how, (bytes + how.chunk - 1) / how.chunk);
  shared_work work{
    to, static_cast<const char*>(from), bytes, how, staging, lanes, {}, 0, 0,
    {}};
  {
    joined_threads others; // fewer, if there are no more
    for (unsigned i = 1; i < how.threads; ++i)
      if (!others.start([&] { copy_on(gpu, work); }))
        break;
    copy_on(gpu, work);
  }
  if (work.failed)
    std::rethrow_exception(work.failed);
}

} // namespace millrace::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

#include "models/device/cuda/pinned_pool.hpp"

namespace millrace::cuda {

/// How what is not page-locked gets to a GPU.
struct upload_plan {
  /// Which copy to page-locked memory, the caller's among them: each 5 to 9
  /// GB/s, of which a PCIe 5 bus takes 55.
  unsigned threads = 0;     ///< 0: of the processors all but two, at most 12
  size_t chunk = 8 << 20;   ///< what the bus takes; it rests 2.6 us after each
  size_t first = 512 << 10; ///< chunk, so that it has something soon; the next
                            ///< one is twice as large, and so on
  size_t part = 256 << 10;  ///< of a chunk: what a thread copies at a time
};

/// Told on the caller's thread of so many bytes, from the first one on, that
/// are there; at last of all.
using upload_progress = std::function<void(size_t bytes)>;

/// Copies memory of the host to one GPU, the current one, through page-locked
/// memory: one thing at a time, for the bus is one. Any thread.
class uploader {
public:
  explicit uploader(pinned_pool& staging);
  ~uploader();

  /// From its beginning on: threads fill chunks of a ring together, while the
  /// bus takes those that are full. All of it is there when this returns.
  /// Throws a failure.
  void copy(
    char* to, const void* from, size_t bytes, upload_plan how = {},
    const upload_progress& there = [](size_t) {});

private:
  struct ring;
  class running;

  pinned_pool& staging_;
  std::mutex mutex_;
  /// Guarded. Kept: to make one takes longer than to copy 100 MB.
  std::unique_ptr<ring> ring_;
};

} // namespace millrace::cuda

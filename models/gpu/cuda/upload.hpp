// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

#include "models/gpu/cuda/pinned_pool.hpp"

namespace millrace::cuda {

/// Settings of a copy of pageable memory to a GPU.
struct upload_plan {
  /// Threads that copy to page-locked memory, with the caller: each 5 to 9
  /// GB/s, where a PCIe 5 bus takes 55.
  unsigned threads = 0;     ///< 0: all processors but two, at most 12
  size_t chunk = 8 << 20;   ///< bytes per transfer, which costs 2.6 us more
  size_t first = 512 << 10; ///< first transfer; doubles up to `chunk`, so that
                            ///< the bus starts early
  size_t part = 256 << 10;  ///< bytes of a chunk that a thread copies at once
};

/// Called on the caller's thread with the number of bytes from the beginning
/// that are present; last with all.
using upload_progress = std::function<void(size_t bytes)>;

/// Copies host memory to the current GPU through page-locked memory, one copy
/// at a time, for the bus is shared. Any thread.
class uploader {
public:
  explicit uploader(pinned_pool& staging);
  ~uploader();

  /// Copies from the beginning on: threads fill chunks of a ring together,
  /// while the bus transfers full chunks. Returns when all bytes are present.
  /// Throws a failure.
  void copy(
    char* to, const void* from, size_t bytes, upload_plan how = {},
    const upload_progress& there = [](size_t) {});

private:
  struct ring;
  class running;

  pinned_pool& staging_;
  std::mutex mutex_;
  /// Guarded. Kept: to create a ring takes longer than to copy 100 MB.
  std::unique_ptr<ring> ring_;
};

} // namespace millrace::cuda

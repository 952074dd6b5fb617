// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "models/device/cuda/idle.hpp"
#include "models/device/cuda/pinned_pool.hpp"
#include "models/device/cuda/runtime.hpp"

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

/// What an upload copies with. More room than this would leave the processors'
/// caches before the bus has it.
struct upload_ring {
  static constexpr size_t rooms = 4;

  stream on;
  std::array<event, rooms> sent;
  std::array<pinned_pool::block, rooms> room; ///< for a chunk each
};

/// Copies memory of the host to the current GPU through page-locked memory,
/// from its beginning on: threads fill chunks of that together, while the bus
/// takes those that are full, with a ring of this GPU: to make one takes longer
/// than to copy 100 MB. All of it is there when this returns. Throws a failure.
void upload(char* to, const void* from, size_t bytes, pinned_pool& staging,
            idle<upload_ring>& rings, upload_plan how = {});

} // namespace millrace::cuda

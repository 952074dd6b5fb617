// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "models/device/cuda/idle.hpp"
#include "models/device/cuda/pinned_pool.hpp"
#include "models/device/cuda/runtime.hpp"

namespace millrace::cuda {

/// How what is not page-locked gets to a GPU.
struct upload_plan {
  /// One thread copies 9 GB/s to page-locked memory, a PCIe 5 bus takes 55.
  unsigned threads = 0; ///< 0: of the processors all but two, at most 12
  size_t chunk = 4 << 20;
  size_t first_chunk = 256 << 10; ///< so that the bus has something soon
};

/// What one thread of an upload copies with.
struct upload_lane {
  stream on;
  event sent[2];
  pinned_pool::block room[2]; ///< one is filled while the other travels
};

/// Copies memory of the host to the current GPU through page-locked memory,
/// from its beginning on: some threads fill chunks of that while the bus takes
/// others, on lanes of this GPU: to make these takes longer than 100 MB do. All
/// of it is there when this returns. Throws a failure.
void upload(char* to, const void* from, size_t bytes, pinned_pool& staging,
            idle<upload_lane>& lanes, upload_plan how = {});

} // namespace millrace::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::cuda {

/// A kernel that a GPU has run for this process.
struct kernel_run {
  std::string name;
  uint64_t start_ns, end_ns; ///< from when the first one began
  uint32_t grid[3], block[3];
  uint32_t registers; ///< of a thread
  uint64_t static_shared, dynamic_shared;
  uint32_t resident; ///< blocks that fit on a multiprocessor; 0: not known
};

/// Notes kernels from now on, until they are taken: once at a time, and by
/// nobody else in this process. By CUPTI's activities, which cost a kernel some
/// microseconds. Throws where there is no CUPTI.
/// https://docs.nvidia.com/cupti/ , Activity API
void begin_kernel_trace();

/// In the order in which they began. Waits for what the GPU was given.
std::vector<kernel_run> end_kernel_trace();

} // namespace millrace::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/units.hpp"

namespace millrace {

/// The driver's figures of a whole GPU, over all its users.
struct gpu_reading {
  std::string name;
  double busy = 0;        ///< fraction of the last second in which a kernel ran
  double memory_busy = 0; ///< fraction in which its memory was in use
  byte_count memory;
  byte_count memory_used;
  uint32_t clock = 0;     ///< of the multiprocessors, MHz
  uint32_t top_clock = 0; ///< highest possible clock
  double watts = 0;
  double most_watts = 0; ///< power limit
};

using gpu_readings = result<std::vector<gpu_reading>>;

/// Reads the GPUs that are visible to CUDA in this process, in CUDA's order, by
/// NVIDIA's management library, which opens none of them. The first call takes
/// some milliseconds. Figures that a GPU does not provide are 0. Any thread.
/// Errors: unavailable when there is no such library, or no GPU.
/// https://docs.nvidia.com/deploy/nvml-api/
gpu_readings read_gpus();

/// Which of a host's GPUs CUDA makes visible to a process, in CUDA's order, for
/// this value of CUDA_VISIBLE_DEVICES: numbers in bus order, or prefixes of
/// UUIDs. The first invalid entry ends the list.
/// https://docs.nvidia.com/cuda/cuda-c-programming-guide/ (environment
/// variables)
std::vector<size_t> visible_gpus(std::string_view said,
                                 const std::vector<std::string>& uuids);

} // namespace millrace

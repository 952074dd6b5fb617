// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/units.hpp"

namespace millrace {

/// What the driver says of a GPU as a whole, whoever uses it.
struct gpu_reading {
  std::string name;
  double busy = 0;        ///< part of the last second in which a kernel ran
  double memory_busy = 0; ///< and in which its memory was read or written
  byte_count memory;
  byte_count memory_used;
  uint32_t clock = 0;     ///< of its multiprocessors, MHz
  uint32_t top_clock = 0; ///< the highest there is
  double watts = 0;
  double most_watts = 0; ///< that it may take
};

using gpu_readings = result<std::vector<gpu_reading>>;

/// Reads the GPUs that CUDA gives this process, in its order, by NVIDIA's
/// management library, which opens none of them: it takes some milliseconds at
/// first. Figures that a GPU does not give are 0. Any thread.
/// Errors: unavailable when there is no such library, or no GPU.
/// https://docs.nvidia.com/deploy/nvml-api/
gpu_readings read_gpus();

/// Which of a host's GPUs CUDA gives a process, in its order, where
/// CUDA_VISIBLE_DEVICES is this: numbers by the bus, or the beginnings of
/// UUIDs. What stands behind one that is none counts for nothing.
/// https://docs.nvidia.com/cuda/cuda-c-programming-guide/ (environment
/// variables)
std::vector<size_t> visible_gpus(std::string_view said,
                                 const std::vector<std::string>& uuids);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "models/device/cuda/idle.hpp"
#include "models/device/cuda/partition.hpp"
#include "models/device/cuda/pinned_ranges.hpp"
#include "models/device/cuda/turns.hpp"
#include "models/device/cuda/upload.hpp"

namespace millrace {

/// What all stages of a process have together on one GPU.
struct gpu_environment {
  cuda::pinned_pool staging{cuda::pinned_by_cuda()};
  cuda::stream compute; ///< of those that run in turn
  cuda::turns turns;
  cuda::idle<cuda::stream> streams; ///< of those that run beside each other
  cuda::partitions partitions;
  cuda::uploader uploads{staging};
  std::atomic<int> stages{0};
};

/// Makes it the current one. Throws when there is no such GPU.
gpu_environment& shared_gpu(int number);

/// What GPUs copy from and to by themselves, beside what is staged.
cuda::pinned_ranges& pinned_memory();

} // namespace millrace

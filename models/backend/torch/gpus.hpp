// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "models/gpu/cuda/idle.hpp"
#include "models/gpu/cuda/partition.hpp"
#include "models/gpu/cuda/pinned_ranges.hpp"
#include "models/gpu/cuda/turns.hpp"
#include "models/gpu/cuda/upload.hpp"

namespace millrace {

/// Resources of one GPU that all stages of a process share.
struct gpu_environment {
  cuda::pinned_pool staging{cuda::pinned_by_cuda()};
  cuda::stream compute; ///< for passes that run in turn
  cuda::turns turns;
  cuda::idle<cuda::stream> streams; ///< for passes that run side by side
  cuda::partitions partitions;
  cuda::uploader uploads{staging};
  std::atomic<int> stages{0};
};

/// Makes the GPU current. Throws when it does not exist.
gpu_environment& shared_gpu(int number);

/// Page-locked memory other than the staging pool's.
cuda::pinned_ranges& pinned_memory();

} // namespace millrace

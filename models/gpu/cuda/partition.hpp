// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "models/gpu/cuda/runtime.hpp"

namespace millrace::cuda {

/// Partition sizes of a GPU: at least `least` multiprocessors, in steps.
struct partition_steps {
  unsigned least;
  unsigned step;

  bool operator==(const partition_steps& other) const {
    return least == other.least && step == other.step;
  }
};

/// By the major compute capability.
/// https://docs.nvidia.com/cuda/cuda-driver-api/ , Green Contexts
partition_steps partition_steps_of(int capability);

/// Multiprocessors for a share of all, in percent; at most all.
unsigned multiprocessors_for(double percent, unsigned all,
                             const partition_steps& how);

/// Tracks which of a GPU's multiprocessors are in use. Any thread.
class used_multiprocessors {
public:
  /// Reserves `count` free consecutive multiprocessors of `all`; returns the
  /// first. If there are none, 0: partitions overlap then.
  unsigned take(unsigned count, unsigned all);
  void give_back(unsigned begin, unsigned count);

private:
  std::mutex mutex_;
  std::multimap<unsigned, unsigned> used_; ///< guarded; count by first
};

/// Some of the current GPU's multiprocessors, for streams of this process: a
/// green context.
/// https://docs.nvidia.com/cuda/cuda-driver-api/ , Green Contexts
class partition {
public:
  /// `count` multiprocessors after the first `begin`. Throws a failure where
  /// the driver has no green contexts (before CUDA 12.5).
  partition(unsigned begin, unsigned count);
  ~partition();
  partition(const partition&) = delete;
  partition& operator=(const partition&) = delete;

  /// A stream with kernels on these alone; destroyed with the partition.
  cudaStream_t make_stream();

  /// Figures of the current GPU.
  static unsigned multiprocessors_of(double percent);
  static unsigned all_multiprocessors();

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

/// The partitions of one GPU. Their streams are kept, for LibTorch never frees
/// its resources of a stream. Any thread.
class partitions {
public:
  struct slice {
    unsigned begin = 0;
    unsigned count = 0;
    cudaStream_t stream = nullptr;
  };

  /// A share of the GPU, disjoint from other shares while enough
  /// multiprocessors are free. Throws as partition.
  slice take(double percent);
  void give_back(const slice& returned);

private:
  struct place {
    std::unique_ptr<partition> part;
    std::vector<cudaStream_t> idle;
  };

  used_multiprocessors used_;
  std::mutex mutex_;
  std::map<std::pair<unsigned, unsigned>, place> places_; ///< guarded
};

} // namespace millrace::cuda

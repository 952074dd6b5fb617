// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "models/device/cuda/runtime.hpp"

namespace millrace::cuda {

/// How a GPU's multiprocessors can be parted: no fewer than `least`, in steps.
struct partition_steps {
  unsigned least;
  unsigned step;

  bool operator==(const partition_steps& x) const {
    return least == x.least && step == x.step;
  }
};

/// By the first number of its compute capability.
/// https://docs.nvidia.com/cuda/cuda-driver-api/ , Green Contexts
partition_steps partition_steps_of(int capability);

/// Multiprocessors to take for a share of them, in percent: at most all.
unsigned multiprocessors_for(double percent, unsigned all,
                             const partition_steps& how);

/// Which of a GPU's multiprocessors have an owner. Any thread.
class used_multiprocessors {
public:
  /// So many in a row that nobody has, of `all`: where they begin. Where there
  /// are none, 0: they are had by several then.
  unsigned take(unsigned count, unsigned all);
  void give_back(unsigned begin, unsigned count);

private:
  std::mutex mutex_;
  std::multimap<unsigned, unsigned> used_; ///< guarded; how many, by the first
};

/// Some of the current GPU's multiprocessors, for streams of this process: a
/// green context.
/// https://docs.nvidia.com/cuda/cuda-driver-api/ , Green Contexts
class partition {
public:
  /// So many, behind the first `begin`. Throws a failure where the driver has
  /// none (before CUDA 12.5).
  partition(unsigned begin, unsigned count);
  ~partition();
  partition(const partition&) = delete;
  partition& operator=(const partition&) = delete;

  /// A stream whose kernels run on these alone; it goes with the partition.
  cudaStream_t make_stream();

  /// Of the current GPU.
  static unsigned multiprocessors_of(double percent);
  static unsigned all_multiprocessors();

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

/// The partitions of one GPU, with their streams, which are kept: what LibTorch
/// has for each stream it does not give back. Any thread.
class partitions {
public:
  struct slice {
    unsigned begin = 0;
    unsigned count = 0;
    cudaStream_t stream = nullptr;
  };

  /// A share, as far as there are enough apart from all others'. Throws as
  /// partition does.
  slice take(double percent);
  void give_back(const slice& x);

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

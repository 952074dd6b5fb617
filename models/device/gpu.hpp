// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/names.hpp"
#include "runtime/units.hpp"

namespace millrace {

/// How what runs on a GPU shares it (the interference framework's digest, 2.5
/// and 2.9).
enum class gpu_sharing : uint8_t {
  time,       ///< one batch after the other; of other processes, slices of time
  streams,    ///< in one process, whatever fits at a time
  partitions, ///< in one process, each on multiprocessors of its own
  mps         ///< processes at a time, each on a share, by NVIDIA's MPS
};

/// Whether replicas have to be in one process for that.
constexpr bool is_within_process(gpu_sharing x) {
  return x == gpu_sharing::streams || x == gpu_sharing::partitions;
}

constexpr auto names_of(gpu_sharing) {
  return name_table{"time", "streams", "partitions", "mps"};
}

/// Where a stage's parameters lie that a GPU computes with.
enum class gpu_parameters : uint8_t {
  device, ///< they are copied there, once
  host ///< page-locked: each pass reads them over the bus, which takes as long
       ///< as to copy them, and the GPU's memory is for passes alone
};

constexpr auto names_of(gpu_parameters) {
  return name_table{"device", "host"};
}

/// Where on a GPU a stage's parameters lie and its passes run.
struct gpu_place {
  int gpu = 0; ///< its number, by the bus, as nvidia-smi counts them
  gpu_sharing sharing = gpu_sharing::time;
  double share = 0;      ///< of its multiprocessors, in percent; 0: all
  bool streaming = true; ///< inputs are copied while other batches compute
  bool graphs = true; ///< batches of shapes seen before are recorded, replayed
  gpu_parameters parameters = gpu_parameters::device;
  /// In a process: a first pass begins before all parameters are there, and
  /// each layer waits for its own.
  bool pipelined = false;
};

/// What is asked of a GPU: what one multiprocessor takes, and memory.
struct gpu_info {
  std::string name;
  int major = 0; ///< compute capability
  int minor = 0;
  uint32_t multiprocessors = 0;
  uint32_t threads = 0; ///< on one of these, as what follows
  uint32_t blocks = 0;
  uint32_t registers = 0;
  byte_count shared_memory;
  byte_count memory; ///< in all
  byte_count free;
};

/// A kernel that a GPU has run.
struct kernel_run {
  std::string name;
  double start = 0; ///< seconds, from one origin
  double end = 0;
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{1, 1, 1};
  uint32_t registers = 0;   ///< of a thread
  byte_count shared_memory; ///< of a block
  uint32_t resident = 0; ///< blocks that fit on a multiprocessor; 0: not known
};

/// What of a backend is for GPUs alone. Errors of all: unavailable, with
/// CUDA's reason.
class gpu_access {
public:
  virtual ~gpu_access() = default;

  /// Opens all that there are.
  virtual result<std::vector<gpu_info>> list() = 0;

  /// Loads the libraries that passes may need, and opens no GPU.
  virtual result<void> prepare() = 0;

  /// Opens all that passes there will need, for a process that gives up its
  /// right to.
  virtual result<void> open(const gpu_place& x) = 0;

  /// Has GPUs copy from and to this memory by themselves, until it is unpinned.
  /// Errors: as a run's on a GPU.
  virtual result<void> pin(const void* begin, size_t bytes) = 0;
  virtual void unpin(const void* begin) = 0;

  /// Notes which kernels run for this process, until they are taken, in the
  /// order in which they began.
  virtual result<void> begin_trace() = 0;
  virtual result<std::vector<kernel_run>> end_trace() = 0;
};

} // namespace millrace

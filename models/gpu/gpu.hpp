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

/// How the work on a GPU shares it (the interference framework's digest, 2.5
/// and 2.9).
enum class gpu_sharing : uint8_t {
  time,       ///< one batch at a time; time slices between processes
  streams,    ///< in one process, as many batches as fit
  partitions, ///< in one process, each batch on its own multiprocessors
  mps         ///< concurrent processes, each with a share, by NVIDIA's MPS
};

/// Whether this mode needs all replicas in one process.
constexpr bool is_within_process(gpu_sharing sharing) {
  return sharing == gpu_sharing::streams || sharing == gpu_sharing::partitions;
}

constexpr auto names_of(gpu_sharing) {
  return name_table{"time", "streams", "partitions", "mps"};
}

/// Where the parameters of a stage on a GPU lie.
enum class gpu_parameters : uint8_t {
  device, ///< copied to the GPU, once
  host ///< page-locked: each pass reads them over the bus, which takes as long
       ///< as copying them; the GPU's memory is for passes alone
};

constexpr auto names_of(gpu_parameters) {
  return name_table{"device", "host"};
}

/// Where a stage's parameters lie on a GPU, and how its passes run.
struct gpu_place {
  int gpu = 0; ///< number in bus order, as in nvidia-smi
  gpu_sharing sharing = gpu_sharing::time;
  double share = 0;      ///< of the multiprocessors, in percent; 0: all
  bool streaming = true; ///< inputs are copied while other batches compute
  bool graphs = true; ///< records batches of repeated shapes as CUDA graphs and
                      ///< replays them
  gpu_parameters parameters = gpu_parameters::device;
  /// In a process: the first pass starts before all parameters are present, and
  /// each layer waits for its own.
  bool pipelined = false;
};

/// Properties of a GPU: limits of one multiprocessor, and memory.
struct gpu_info {
  std::string name;
  int major = 0; ///< compute capability
  int minor = 0;
  uint32_t multiprocessors = 0;
  uint32_t threads = 0; ///< on one multiprocessor, as the fields below
  uint32_t blocks = 0;
  uint32_t registers = 0;
  byte_count shared_memory;
  byte_count memory; ///< total
  byte_count free;
};

/// A kernel that a GPU has run.
struct kernel_run {
  std::string name;
  double start = 0; ///< seconds, from a common origin
  double end = 0;
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{1, 1, 1};
  uint32_t registers = 0;   ///< per thread
  byte_count shared_memory; ///< per block
  uint32_t resident = 0;    ///< blocks that fit on a multiprocessor; 0: unknown
};

/// The part of a backend for GPUs. Errors of all functions: unavailable, with
/// CUDA's reason.
class gpu_access {
public:
  virtual ~gpu_access() = default;

  /// Opens all GPUs and returns their properties.
  virtual result<std::vector<gpu_info>> list() = 0;

  /// Loads the libraries that passes may need, and opens no GPU.
  virtual result<void> prepare() = 0;

  /// Opens all libraries and devices that passes there will need, before the
  /// process gives up the right to open files.
  virtual result<void> open(const gpu_place& where) = 0;

  /// Page-locks this memory, so that GPUs copy from and to it directly, until
  /// unpin().
  /// Errors: as a run on a GPU.
  virtual result<void> pin(const void* begin, size_t bytes) = 0;
  virtual void unpin(const void* begin) = 0;

  /// Records the kernels that run for this process until end_trace(), which
  /// returns them in the order of their starts.
  virtual result<void> begin_trace() = 0;
  virtual result<std::vector<kernel_run>> end_trace() = 0;
};

} // namespace millrace

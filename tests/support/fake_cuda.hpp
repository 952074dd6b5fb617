// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include <cuda_runtime_api.h>

/// \file
/// A fake of the CUDA runtime without a GPU, as far as models/gpu/cuda/ uses
/// the runtime. Tests link it instead of the real runtime. A stream is a thread
/// that runs its work in order, an event is reached when its stream reaches it,
/// and GPU memory is host memory. Tests can check the order of work and the
/// release of resources on any machine, but not the timing.
namespace millrace::test::fake_cuda {

/// The number of live objects of each kind.
struct inventory {
  size_t streams = 0;
  size_t events = 0;
  size_t gpu_memory = 0;  ///< number of blocks
  size_t page_locked = 0; ///< number of blocks of host memory
  size_t partitions = 0;

  bool operator==(const inventory&) const = default;
};
inventory what_is_there();

/// Counts of operations since reset().
struct history {
  size_t copies = 0;      ///< copies that streams have run
  size_t slow_copies = 0; ///< copies of host memory that is not page-locked
  size_t streams_made = 0;
  size_t locked = 0; ///< blocks of host memory that were page-locked
};
history so_far();

/// Clears the counts and the planned failures. Live objects stay.
void reset();

/// Makes the n-th next call of this name fail. An error that loses the context
/// also fails all later calls.
void fail(const std::string& call, size_t nth, cudaError_t with);

/// Runs a function on a stream in place of a kernel.
void launch(cudaStream_t on, std::function<void()> kernel);

/// The multiprocessors of the partition of a stream: index of the first one,
/// and count.
std::pair<unsigned, unsigned> multiprocessors_of(cudaStream_t x);
constexpr unsigned all_multiprocessors = 132;

} // namespace millrace::test::fake_cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include <cuda_runtime_api.h>

/// \file
/// CUDA's runtime without a GPU, as far as models/device/cuda/ uses it: linked
/// instead of the real one. Streams are threads that do what they were given in
/// order, events are reached when their stream comes to them, and a GPU's
/// memory is the host's. So what is given when, and what is given back, can be
/// tested anywhere; how long it takes cannot.
namespace millrace::test::fake_cuda {

/// What there is now of each kind.
struct inventory {
  size_t streams = 0;
  size_t events = 0;
  size_t gpu_memory = 0;  ///< blocks
  size_t page_locked = 0; ///< blocks of the host's
  size_t partitions = 0;

  bool operator==(const inventory&) const = default;
};
inventory what_is_there();

/// What was done since reset().
struct history {
  size_t copies = 0;      ///< that streams have come to
  size_t slow_copies = 0; ///< from or to the host's memory that is not locked
  size_t streams_made = 0;
  size_t locked = 0; ///< blocks of the host's memory
};
history so_far();

/// Forgets what was done, and all that was to fail; what is there stays.
void reset();

/// The n-th call of that name from now on fails, and so do, with an error that
/// loses the context, all others after it.
void fail(const std::string& call, size_t nth, cudaError_t with);

/// Has a stream do this, as it would run a kernel.
void launch(cudaStream_t on, std::function<void()> kernel);

/// Of a GPU's multiprocessors, those that a partition's stream has: begin and
/// count.
std::pair<unsigned, unsigned> multiprocessors_of(cudaStream_t x);
constexpr unsigned all_multiprocessors = 132;

} // namespace millrace::test::fake_cuda

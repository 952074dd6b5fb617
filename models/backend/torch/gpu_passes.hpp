// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include <torch/script.h>

#include "models/backend/abi.h"

namespace millrace {

/// A stage on a GPU: its parameters, and passes that copy inputs in, compute,
/// and copy outputs out. Streams of different passes wait for each other only
/// where necessary.
class gpu_passes {
public:
  using tensors = std::vector<at::Tensor>;
  /// Computes outputs from inputs, all on the GPU.
  using forward = std::function<tensors(const tensors&)>;

  explicit gpu_passes(const millrace_place& place);
  ~gpu_passes();
  gpu_passes(const gpu_passes&) = delete;
  gpu_passes& operator=(const gpu_passes&) = delete;

  c10::Device device() const;

  /// Allocates memory for parameters with this layout, and returns their
  /// tensors. Their bytes come with arrive().
  tensors place(const std::vector<const millrace_tensor*>& parameters);

  /// Copies these bytes of the parameters, or all (null), unless copied before.
  void arrive(const char* begin, size_t bytes);

  /// Waits until parameters [first, last), as passed to place(), are present.
  /// Throws if they will never be.
  void await(size_t first, size_t last) const;

  /// The absent parameters will never arrive.
  void give_up();

  /// From now on passes may be recorded, and replayed when their shapes recur:
  /// for a stage with the same operators for all values of inputs.
  void record();

  /// Outputs lie in the room, if it is pinned and large enough, else in
  /// page-locked memory that the caller releases.
  struct pass_order {
    const millrace_tensor* inputs;
    uint32_t input_count;
    const forward& how;
    bool metered; ///< forbids a replay
    millrace_room* room;
    millrace_tensor* outputs;
    uint32_t output_capacity;
    uint32_t* output_count;
  };

  void run(const pass_order& order);

  /// GPU memory of the stage: its parameters, and LibTorch's memory for its
  /// passes: workspaces, activations, recordings. Where stages share a stream,
  /// only the buffers of its inputs and recorded outputs.
  uint64_t memory() const;

private:
  struct known_shape;
  struct lane;
  struct state;
  class pass;
  std::unique_ptr<state> state_;
};

/// The kind of a failure on the current GPU: as in abi.h.
int gpu_failure_kind(const std::exception& thrown);

/// The table of abi.h with these calls for stages; null in a backend that can
/// use no GPU.
const millrace_gpu_calls*
gpu_calls(decltype(millrace_gpu_calls::arrive) arrive,
          decltype(millrace_gpu_calls::give_up) give_up,
          decltype(millrace_gpu_calls::memory) memory);

} // namespace millrace

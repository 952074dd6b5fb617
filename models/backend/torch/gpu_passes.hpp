// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include <torch/script.h>

#include "models/backend/abi.h"

namespace millrace {

/// What a stage has on a GPU: its parameters, and passes that copy their inputs
/// in, compute, and copy their outputs out, each on streams that wait for no
/// more of other passes than they have to.
class gpu_passes {
public:
  using tensors = std::vector<at::Tensor>;
  /// Makes outputs of inputs, all of them on the GPU.
  using forward = std::function<tensors(const tensors&)>;

  explicit gpu_passes(const millrace_place& place);
  ~gpu_passes();
  gpu_passes(const gpu_passes&) = delete;
  gpu_passes& operator=(const gpu_passes&) = delete;

  c10::Device device() const;

  /// Makes room for parameters that lie as these do, and says where each is.
  /// What lies there comes with arrive().
  tensors place(const std::vector<const millrace_tensor*>& parameters);

  /// Copies these of them, or all (null), but for what was copied before.
  void arrive(const char* begin, size_t bytes);

  /// Waits until parameters [first, last) of those that were placed are there.
  /// Throws if they never will be.
  void await(size_t first, size_t last) const;

  /// What was not copied yet never will be.
  void give_up();

  /// From now on a pass may be recorded, and replayed when its shapes come
  /// again: for a stage that does the same whatever its inputs hold.
  void record();

  /// Outputs lie in the room, if that is pinned and large enough, else in
  /// page-locked memory which is the caller's to release.
  struct pass_order {
    const millrace_tensor* inputs;
    uint32_t input_count;
    const forward& how;
    bool metered; ///< it is no replay
    millrace_room* room;
    millrace_tensor* outputs;
    uint32_t output_capacity;
    uint32_t* output_count;
  };

  void run(const pass_order& x);

  /// Of the GPU: its parameters, and what LibTorch has come to keep for passes:
  /// workspaces, activations, recordings. Where several take turns on one
  /// stream, what their inputs and recordings' outputs take.
  uint64_t memory() const;

private:
  struct known_shape;
  struct lane;
  struct state;
  class pass;
  std::unique_ptr<state> state_;
};

/// Of a failure that happened on the current GPU: as in abi.h.
int gpu_failure_kind(const std::exception& x);

/// The table of abi.h, whose calls for stages are these; null in a backend that
/// can use no GPU.
const millrace_gpu_calls*
gpu_calls(decltype(millrace_gpu_calls::arrive) arrive,
          decltype(millrace_gpu_calls::give_up) give_up,
          decltype(millrace_gpu_calls::memory) memory);

} // namespace millrace

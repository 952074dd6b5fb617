// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <torch/script.h>

namespace millrace {

/// A layer cut out of a model: a module of its own, with the parameters that it
/// uses under their former names.
struct split_layer {
  std::string name; ///< of the part of the model: "encoder.layer.3"
  /// Inputs and outputs of its forward: names of the model's inputs, or of
  /// values of earlier layers. The last layer gives the model's outputs,
  /// without names.
  std::vector<std::string> takes, gives;
  torch::jit::Module module;
};

/// Cuts a model into the layers that it runs one after the other: a new layer
/// begins where the model enters or leaves a part of itself, down to `depth`
/// names ("encoder.layer.3" has three). In order they compute the model's
/// result. `firsts` has the numbers of those layers that begin a merged layer;
/// empty: all do.
///
/// Only tensors cross a cut; numbers computed from their extents are computed
/// again where they are used. The model gets the first `inputs` arguments; the
/// other arguments must default to None. Throws std::runtime_error for a model
/// that changes itself while it runs, or passes on values other than tensors
/// and numbers from tensors' extents.
std::vector<split_layer> split_into_layers(const torch::jit::Module& whole,
                                           size_t inputs, size_t depth,
                                           const std::vector<size_t>& firsts);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <torch/script.h>

namespace millrace {

/// A layer cut out of a model: a module of its own, with the parameters that it
/// uses under the names they had.
struct split_layer {
  std::string name; ///< of the part of the model that it is, "encoder.layer.3"
  /// What its forward takes and gives: names of the model's inputs, or of what
  /// layers before have given. The last gives what the model gives, nameless.
  std::vector<std::string> takes, gives;
  torch::jit::Module module;
};

/// Cuts a model into the layers that it runs one after the other: a new one
/// begins where it enters or leaves a part of itself, down to `depth` names
/// ("encoder.layer.3" has three). Run in order they compute what the model
/// does. Of `firsts`, the numbers of layers in that list, each begins a layer
/// here, and no other does; empty: each does.
///
/// What crosses a cut are tensors; numbers made of their extents are made again
/// where they are used. Takes the first `inputs` arguments; the others have to
/// have None for a default.
/// Throws std::runtime_error for a model that changes itself while it runs, or
/// hands on what is neither a tensor nor made of tensors' extents.
std::vector<split_layer> split_into_layers(const torch::jit::Module& whole,
                                           size_t inputs, size_t depth,
                                           const std::vector<size_t>& firsts);

} // namespace millrace

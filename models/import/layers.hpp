// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "models/import/draft.hpp"
#include "models/import/samples.hpp"

namespace millrace {

/// Into which layers a model is cut.
struct layer_settings {
  /// Down to how many names of its parts: "encoder.layer.3" has three.
  uint32_t depth = 4;
  size_t most = 64; ///< planning takes long for more
  /// Bytes of a layer's parameters: what has fewer is loaded in no time, and
  /// joins what is beside it.
  uint64_t least = 64 << 10;
};

/// A model in layers; or why it is one.
struct cut_model {
  std::optional<draft> layers;
  std::string why_one;
};

/// Cuts a model file into layers, and sees that they compute together what the
/// whole did: `known` is what is known of the model, its signature too, and
/// `samples` what it made of which inputs.
/// Errors: bad_request when it cannot be cut so.
result<cut_model>
cut_into_layers(backend& runner, const mapped_file& file, const manifest& known,
                const layer_settings& how, const sample_run& samples,
                const std::function<void(std::string)>& progress);

/// Some requests' inputs, or what they have become on their way.
using tensor_lists = std::vector<tensor_list>;

/// Runs each layer as a stage of its own, one after the other, as if each were
/// on another node: on one request's inputs after the other. `behind` is told
/// what crosses the cut behind each.
/// Errors: the backend's, naming the layer.
result<tensor_lists> run_by_layers(
  backend& runner, const std::shared_ptr<const bundle>& x, tensor_lists inputs,
  const std::function<void(size_t, const tensor_lists&)>& behind = {});

} // namespace millrace

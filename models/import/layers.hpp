// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "models/import/draft.hpp"
#include "models/import/samples.hpp"

namespace millrace {

/// Limits of the layers that a model is cut into.
struct layer_settings {
  /// Number of names of a part: "encoder.layer.3" has three.
  uint32_t depth = 4;
  size_t most = 64; ///< planning takes long for more
  /// Bytes of a layer's parameters. Smaller layers load in negligible time and
  /// are merged with a neighbour.
  uint64_t least = 64 << 10;
};

/// A model cut into layers; or the reason why it stays one layer.
struct cut_model {
  std::optional<draft> layers;
  std::string why_one;
};

/// Cuts a model file into layers, and checks that together they compute the
/// same as the whole. `known` is the manifest so far, with the signature;
/// `samples` has inputs and the whole model's outputs.
/// Errors: bad_request when it cannot be cut so.
result<cut_model>
cut_into_layers(backend& runner, const mapped_file& file, const manifest& known,
                const layer_settings& how, const sample_run& samples,
                const std::function<void(std::string)>& progress);

/// Inputs of several requests, or their intermediate values.
using tensor_lists = std::vector<tensor_list>;

/// Runs each layer as a stage of its own, one after the other, as if each were
/// on another node, for one request at a time. `behind` is called with the
/// values that cross the cut behind each layer.
/// Errors: the backend's, naming the layer.
result<tensor_lists> run_by_layers(
  backend& runner, const std::shared_ptr<const bundle>& opened,
  tensor_lists inputs,
  const std::function<void(size_t, const tensor_lists&)>& behind = {});

} // namespace millrace

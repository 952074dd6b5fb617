// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "models/batching.hpp"
#include "models/bundle.hpp"

namespace millrace {

std::vector<std::string> value_names(const std::vector<passed_value>& xs);

/// The names of the tensors that cross a cut: what a stage that begins with
/// this layer is given, and one that ends before it gives. Before the first
/// layer the inputs, behind the last the outputs.
std::vector<std::string> crossing(const manifest& x, size_t layer);

/// A stage's neighbours in the graph of a model's stages, by number.
struct stage_neighbours {
  std::set<size_t> takes_from; ///< whose values it takes
  std::set<size_t> gives_to;   ///< who takes its own
};

/// Of each stage of a model that is cut before these layers, which ascend. The
/// graph is a chain only where no value skips a stage: a stage that passes one
/// on is not between those that give and take it (QUART 5.2, QU-08).
std::vector<stage_neighbours> stage_graph(const manifest& x,
                                          std::span<const size_t> cuts);

/// Zeros in the place of these, for so many rows; what free extents the inputs
/// have beside those are the usual ones. Errors: too_large.
result<tensor_list> zeros_across(const manifest& x, size_t layer, size_t rows);

/// The row for warm-ups of a manifest. Errors: too_large for one that would
/// make manifests long, with its bytes.
result<std::string> write_warm_up_row(const signature& s,
                                      const tensor_list& inputs);

/// Inputs of a stage that begins with this layer, for a warm-up of `rows` rows:
/// the manifest's row, repeated, for the first stage, else zeros_across.
result<tensor_list> warm_up_inputs(const manifest& x, size_t layer,
                                   size_t rows);

/// Zeros as the model's inputs, whose free extents are so long. Errors: as
/// above.
result<tensor_list> zeros_as_inputs(const manifest& x, size_t rows,
                                    size_t extent);

} // namespace millrace

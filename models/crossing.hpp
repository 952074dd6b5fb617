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

/// The names of the tensors that cross a cut: the inputs of a stage that begins
/// with this layer, and the outputs of a stage that ends before it. Before the
/// first layer these are the model's inputs, after the last its outputs.
std::vector<std::string> crossing(const manifest& info, size_t layer);

/// A stage's neighbours in the graph of a model's stages, by number.
struct stage_neighbours {
  std::set<size_t> takes_from; ///< stages that give it values
  std::set<size_t> gives_to;   ///< stages that take its values
};

/// The neighbours of each stage of a model that is cut before these layers, in
/// ascending order. The graph is a chain only if no value skips a stage: a
/// stage that only forwards a value is no neighbour of its producer and
/// consumer (QUART 5.2, QU-08).
std::vector<stage_neighbours> stage_graph(const manifest& info,
                                          std::span<const size_t> cuts);

/// Zeros for the tensors that cross this cut, with `rows` rows; other free
/// extents have their usual values.
/// Errors: too_large.
result<tensor_list> zeros_across(const manifest& info, size_t layer,
                                 size_t rows);

/// A manifest's row for warm-ups.
/// Errors: too_large, with the bytes of a row that is too large for a manifest.
result<std::string> write_warm_up_row(const signature& s,
                                      const tensor_list& inputs);

/// Inputs for a warm-up of `rows` rows of a stage that begins with this layer:
/// the manifest's row, repeated, for the first stage, else zeros_across.
result<tensor_list> warm_up_inputs(const manifest& info, size_t layer,
                                   size_t rows);

/// Zeros for the model's inputs, with `extent` for the other free extents.
/// Errors: as zeros_across.
result<tensor_list> zeros_as_inputs(const manifest& info, size_t rows,
                                    size_t extent);

} // namespace millrace

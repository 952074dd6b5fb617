// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// Zeros in the place of these, for so many rows; what free extents the inputs
/// have beside those are 1. Errors: too_large.
result<tensor_list> zeros_across(const manifest& x, size_t layer, size_t rows);

} // namespace millrace

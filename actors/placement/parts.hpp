// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "actors/placement/cluster_view.hpp"

namespace millrace {

/// What one copy of a model is made of: its layers, whole or cut as its
/// settings say.
/// Errors: bad_request when it cannot be cut so.
result<std::vector<layer_range>> parts_of(const model_settings& x,
                                          const model_info& info);

/// The replicas wanted of a part; 0 replicas are none of any part.
uint64_t wanted_of(const model_settings& x, size_t part);

/// All of its layers.
layer_range whole_of(const model_info& x);

/// Of the parameters of some layers, or of all: {0, 0}, and where nobody knows
/// what each has.
uint64_t bytes_of(const model_info& x, const layer_range& layers);

/// How many copies of a model there are. One in parts is ready when all its
/// parts are, and starts while one of them does. Whole ones that take the place
/// of parts count beside these.
struct copy_count {
  uint64_t ready = 0;
  uint64_t starting = 0;
};
copy_count count_copies(const cluster_view& view, const model_settings& x);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace {

/// What a layer of the finest cut has: the bytes of its parameters, and of all
/// that crosses the cut before it (of the first: nothing).
struct fine_layer {
  uint64_t parameters = 0;
  uint64_t crossing = 0;
};

/// Which of the finest layers are to begin a layer, ascending; the first always
/// does. A cut goes that has a better one beside it, with less crossing it and
/// no parameters between the two: an activation is no layer of its own. Then
/// what has fewer bytes of parameters than `least` joins the lighter of its
/// neighbours, and the two neighbours that have the fewest together become one
/// until there are at most so many: what is left is as even as it can be, which
/// is what a planner wants to choose from.
std::vector<uint32_t> choose_layers(const std::vector<fine_layer>& xs,
                                    size_t most, uint64_t least = 0);

} // namespace millrace

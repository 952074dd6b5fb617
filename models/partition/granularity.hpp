// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace {

/// A layer of the finest cut: the bytes of its parameters, and of all values
/// that cross the cut before it (0 for the first).
struct fine_layer {
  uint64_t parameters = 0;
  uint64_t crossing = 0;
};

/// Selects which of the finest layers begin a layer, ascending; the first
/// always does. Steps:
/// - Removes a cut next to a better one, with fewer bytes across it and no
///   parameters between the two: an activation is no layer of its own.
/// - Merges layers with fewer than `least` bytes of parameters into the lighter
///   neighbour.
/// - Merges the two neighbours with the fewest parameters together until at
///   most `most` layers are left, so that they are as even as possible.
std::vector<uint32_t> choose_layers(const std::vector<fine_layer>& xs,
                                    size_t most, uint64_t least = 0);

} // namespace millrace

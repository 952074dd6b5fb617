// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/error.hpp"

namespace millrace {

/// Bytes of the largest part, of those that begin with the first layer and at
/// the cuts.
uint64_t largest_part(const std::vector<uint64_t>& layer_bytes,
                      const std::vector<uint64_t>& cuts);

/// The first layers of all parts but the first, for so many parts, none empty,
/// the largest of which has as few bytes as can be. At least as many layers as
/// parts, and one part.
std::vector<uint64_t> even_cuts(const std::vector<uint64_t>& layer_bytes,
                                size_t parts);

/// How a model is to be cut, as somebody says it.
struct cut_wish {
  uint64_t parts = 1;
  std::vector<uint64_t> cuts;   ///< empty: wherever that makes so many parts
  std::vector<uint64_t> counts; ///< of each part's replicas; empty: all alike
  uint64_t replicas = 1;        ///< of all parts, where they are alike

  uint64_t part_count() const { return cuts.empty() ? parts : cuts.size() + 1; }
};

/// Replicas of one part.
inline constexpr uint64_t most_of_a_part = 10'000;

/// Whether its numbers fit together, and a model of so many layers (0: of
/// nobody knows how many). Errors: bad_request.
result<void> check_cuts(const cut_wish& x, uint64_t layers = 0);

} // namespace millrace

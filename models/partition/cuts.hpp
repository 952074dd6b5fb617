// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/error.hpp"

namespace millrace {

/// Bytes of the largest part, where parts begin with the first layer and at the
/// cuts.
uint64_t largest_part(const std::vector<uint64_t>& layer_bytes,
                      const std::vector<uint64_t>& cuts);

/// The first layers of all parts but the first, for `parts` non-empty parts,
/// such that the largest part has as few bytes as possible. Requires at least
/// one part, and at least as many layers as parts.
std::vector<uint64_t> even_cuts(const std::vector<uint64_t>& layer_bytes,
                                size_t parts);

/// A user's choice of cuts and replicas.
struct cut_wish {
  uint64_t parts = 1;
  std::vector<uint64_t> cuts; ///< empty: chosen by even_cuts
  /// Replicas of each part; empty: `replicas` of each.
  std::vector<uint64_t> counts;
  uint64_t replicas = 1; ///< of each part, without `counts`

  uint64_t part_count() const { return cuts.empty() ? parts : cuts.size() + 1; }
};

/// Upper limit of the replicas of one part.
inline constexpr uint64_t most_of_a_part = 10'000;

/// Checks the numbers against each other, and against a model of `layers`
/// layers (0: unknown).
/// Errors: bad_request.
result<void> check_cuts(const cut_wish& wish, uint64_t layers = 0);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace {

/// The first layers of all parts but the first, for so many parts, none empty,
/// the largest of which has as few bytes as can be. At least as many layers as
/// parts, and one part.
std::vector<uint64_t> even_cuts(const std::vector<uint64_t>& layer_bytes,
                                size_t parts);

} // namespace millrace

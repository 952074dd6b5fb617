// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/names.hpp"

namespace millrace {

/// What makes room when a tier is full.
enum class eviction : uint8_t {
  /// What it would cost least to miss: by the time it takes to get again, how
  /// many bytes are free for that, and how long nobody has used it
  /// (GreedyDual-Size, Cao and Irani 1997, with time in place of its clock).
  cost,
  lru,   ///< the content that was used least recently
  unused ///< as lru; a content without users leaves memory at once
};

constexpr auto names_of(eviction) {
  return name_table{"cost", "lru", "unused"};
}

/// A content of a tier that may be evicted.
struct eviction_candidate {
  std::string content;
  uint64_t bytes = 0;
  double seconds = 0; ///< that it takes to get the content again
  double idle = 0;    ///< seconds since it was used last
};

/// The contents to evict so that at least so many bytes become free, and none
/// that is not needed for that; empty when all candidates together are too few.
std::vector<std::string> choose_victims(std::vector<eviction_candidate> all,
                                        uint64_t bytes, eviction by);

} // namespace millrace

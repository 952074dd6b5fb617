// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/names.hpp"

namespace millrace {

/// How a full tier chooses contents to evict.
enum class eviction : uint8_t {
  /// The content with the least cost of eviction: seconds to fetch again, per
  /// byte and per second idle (GreedyDual-Size, Cao and Irani 1997, with time
  /// in place of its clock).
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
  double seconds = 0; ///< time to fetch or read the content again
  double idle = 0;    ///< seconds since it was used last
};

/// Returns the contents to evict so that at least `bytes` become free, without
/// unnecessary ones; empty when all candidates together are too small.
std::vector<std::string> choose_victims(std::vector<eviction_candidate> all,
                                        uint64_t bytes, eviction by);

} // namespace millrace

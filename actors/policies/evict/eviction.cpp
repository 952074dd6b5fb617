// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/evict/eviction.hpp"

#include <algorithm>
#include <utility>

namespace millrace {

namespace {

/// Cost of the eviction of a content, per byte: lower for a large content, and
/// for a content that is idle for long.
double price(const eviction_candidate& x, eviction by) {
  auto idle = std::max(1e-3, x.idle);
  if (by != eviction::cost)
    return 1 / idle;
  auto bytes = static_cast<double>(std::max<uint64_t>(1, x.bytes));
  return x.seconds / bytes / idle;
}

} // namespace

std::vector<std::string> choose_victims(std::vector<eviction_candidate> all,
                                        uint64_t bytes, eviction by) {
  std::sort(all.begin(), all.end(), [&](auto& a, auto& b) {
    return std::pair{price(a, by), a.content}
           < std::pair{price(b, by), b.content};
  });
  size_t n = 0;
  uint64_t freed = 0;
  for (; n < all.size() && freed < bytes; ++n)
    freed += all[n].bytes;
  if (freed < bytes)
    return {};
  all.resize(n);
  // An earlier candidate may be unnecessary once the last one is included.
  std::erase_if(all, [&](auto& x) {
    auto spare = freed - x.bytes >= bytes;
    freed -= spare ? x.bytes : 0;
    return spare;
  });
  std::vector<std::string> out;
  for (auto& x : all)
    out.push_back(std::move(x.content));
  return out;
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#include "models/partition/granularity.hpp"

#include <algorithm>

namespace millrace {

namespace {

/// A layer under construction: its first fine layer, the bytes that cross the
/// cut before it, and its parameters.
struct part {
  uint32_t first;
  uint64_t crossing;
  uint64_t parameters;
};

/// Merges part `second` into the part before it, which keeps its beginning.
void join(std::vector<part>& xs, size_t second) {
  xs[second - 1].parameters += xs[second].parameters;
  xs.erase(xs.begin() + static_cast<std::ptrdiff_t>(second));
}

/// A cut that is no better than an adjacent one, or none.
size_t worse_cut(const std::vector<part>& xs) {
  for (size_t i = 1; i < xs.size(); ++i) {
    // The layer behind this cut has no parameters: the next cut is as good.
    if (i + 1 < xs.size() && xs[i].parameters == 0
        && xs[i + 1].crossing <= xs[i].crossing)
      return i;
    if (i > 1 && xs[i - 1].parameters == 0
        && xs[i - 1].crossing <= xs[i].crossing)
      return i;
  }
  return 0;
}

size_t lightest_part(const std::vector<part>& xs) {
  auto lighter = [](auto& a, auto& b) { return a.parameters < b.parameters; };
  auto i = std::min_element(xs.begin(), xs.end(), lighter);
  return static_cast<size_t>(i - xs.begin());
}

/// The cut between a part and its neighbour with fewer parameters.
size_t lighter_cut(const std::vector<part>& xs, size_t i) {
  auto is_last = i + 1 == xs.size();
  auto goes_back =
    i > 0 && (is_last || xs[i - 1].parameters <= xs[i + 1].parameters);
  return goes_back ? i : i + 1;
}

/// The second of the two neighbours with the fewest parameters together.
size_t lightest_pair(const std::vector<part>& xs) {
  size_t out = 1;
  auto together = [&](size_t i) {
    return xs[i - 1].parameters + xs[i].parameters;
  };
  for (size_t i = 2; i < xs.size(); ++i)
    if (together(i) < together(out))
      out = i;
  return out;
}

} // namespace

std::vector<uint32_t> choose_layers(const std::vector<fine_layer>& xs,
                                    size_t most, uint64_t least) {
  std::vector<part> parts;
  for (auto& x : xs)
    parts.push_back(
      {static_cast<uint32_t>(parts.size()), x.crossing, x.parameters});
  while (auto i = worse_cut(parts))
    join(parts, i);
  // Code before the first parameters, or behind the last, is no layer.
  while (parts.size() > 1 && parts[0].parameters == 0)
    join(parts, 1);
  while (parts.size() > 1 && parts.back().parameters == 0)
    join(parts, parts.size() - 1);
  while (parts.size() > 1) {
    auto lightest = lightest_part(parts);
    if (parts[lightest].parameters >= least)
      break;
    join(parts, lighter_cut(parts, lightest));
  }
  while (parts.size() > std::max<size_t>(most, 1))
    join(parts, lightest_pair(parts));
  std::vector<uint32_t> out;
  for (auto& x : parts)
    out.push_back(x.first);
  return out;
}

} // namespace millrace

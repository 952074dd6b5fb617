// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// The edit distance of two texts, counting insertions, deletions, replacements
/// and swaps of neighbours (optimal string alignment distance).
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, row(b.size() + 1), next(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min(
        {row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before = row;
    std::swap(row, next);
  }
  return row[b.size()];
}

/// Returns " (did you mean 'NAME'?)" with the known name nearest to a mistyped
/// one; empty when none is near. A name is near if at most a third of its
/// characters differ, or if it starts with the mistyped text. Long texts are
/// not compared.
template <class Names>
std::string suggestion(std::string_view mistyped, const Names& known) {
  constexpr size_t compared_max = 64;
  if (mistyped.empty() || mistyped.size() > compared_max)
    return {};
  std::string_view best;
  auto least = std::max<size_t>(1, mistyped.size() / 3) + 1;
  for (std::string_view name : known) {
    if (name.size() > compared_max)
      continue;
    auto begins = mistyped.size() >= 3 && name.starts_with(mistyped);
    auto distance = begins ? 1 : edit_distance(mistyped, name);
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best.empty() ? std::string{}
                      : " (did you mean '" + std::string{best} + "'?)";
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/units.hpp"

namespace millrace::test {

/// "median 13 ms, p99 26 ms, most 31 ms"
inline std::string distribution(std::vector<microseconds> xs) {
  if (xs.empty())
    return "none";
  std::sort(xs.begin(), xs.end());
  auto at = [&](size_t percent) {
    return format_duration(xs[(xs.size() * percent + 99) / 100 - 1]);
  };
  return "median " + at(50) + ", p99 " + at(99) + ", most " + at(100);
}

inline microseconds median_of(std::vector<microseconds> xs) {
  std::sort(xs.begin(), xs.end());
  return xs[(xs.size() - 1) / 2];
}

inline microseconds most_of(const std::vector<microseconds>& xs) {
  return *std::max_element(xs.begin(), xs.end());
}

} // namespace millrace::test

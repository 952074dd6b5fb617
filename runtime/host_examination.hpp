// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "runtime/names.hpp"

namespace millrace {

enum class verdict : uint8_t {
  good,
  notice, ///< works, could be better
  bad     ///< will hurt under load
};

constexpr auto names_of(verdict) {
  return name_table{"good", "notice", "bad"};
}

/// One thing that was looked at on a host.
struct finding {
  std::string what;
  verdict how = verdict::good;
  std::string found;
  std::string advice; ///< what to do, unless it is good
  MILLRACE_FIELDS(finding, what, how, found, advice)
};

/// Looks at what this process may use and runs with: limits, memory, huge
/// pages, threads, Landlock, clock, sockets, libraries, and the room in a
/// folder. Reads /proc and /sys; what cannot be read is left out. Takes about a
/// millisecond.
std::vector<finding> examine_host(const std::string& folder);

} // namespace millrace

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
  notice, ///< works, but could be improved
  bad     ///< will cause problems under load
};

constexpr auto names_of(verdict) {
  return name_table{"good", "notice", "bad"};
}

/// Result of one check of a host.
struct finding {
  std::string what;
  verdict how = verdict::good;
  std::string found;
  std::string advice; ///< what to do; unused for good
  MILLRACE_FIELDS(finding, what, how, found, advice)
};

/// Checks the limits and the environment of this process: resource limits,
/// memory, huge pages, threads, Landlock, clock, sockets, libraries, and free
/// space in `folder`. Reads /proc and /sys and omits each check with unreadable
/// files. Takes about 1 ms.
std::vector<finding> examine_host(const std::string& folder);

} // namespace millrace

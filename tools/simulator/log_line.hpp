// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace millrace::simulator {

/// The value of a field of a log line "component.event key=value ..."; empty if
/// the line lacks the field.
inline std::string_view field_of(std::string_view line, std::string_view key) {
  for (auto at = line.find(' '); at != std::string_view::npos;
       at = line.find(' ', at + 1)) {
    auto rest = line.substr(at + 1);
    if (rest.starts_with(key) && rest.substr(key.size(), 1) == "=") {
      rest.remove_prefix(key.size() + 1);
      return rest.substr(0, rest.find(' '));
    }
  }
  return {};
}

} // namespace millrace::simulator

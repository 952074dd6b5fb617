// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace millrace {

struct string_hash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

/// A hash map with text keys; lookup by std::string_view makes no copy.
template <class T>
using string_map =
  std::unordered_map<std::string, T, string_hash, std::equal_to<>>;

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace millrace {

struct string_hash {
  using is_transparent = void;
  size_t operator()(std::string_view x) const {
    return std::hash<std::string_view>{}(x);
  }
};

/// A hash map by text in which a part of another text is looked up as it is.
template <class T>
using string_map =
  std::unordered_map<std::string, T, string_hash, std::equal_to<>>;

} // namespace millrace

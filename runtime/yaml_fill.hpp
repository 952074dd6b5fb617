// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Fills values into a YAML document that does not set them. Includes yaml-cpp:
/// for .cpp files of loaders only.

#include <algorithm>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

namespace millrace {

namespace detail {

inline void fill_in(const YAML::Node& at, const std::string& path,
                    const std::string& before, const YAML::Node& value,
                    std::vector<std::string>& filled) {
  auto end = std::min(path.size(), path.find('.'));
  auto step = path.substr(0, end);
  auto in_list = step.ends_with("[]");
  auto key = in_list ? step.substr(0, step.size() - 2) : step;
  auto rest = end == path.size() ? "" : path.substr(end + 1);
  auto name = before.empty() ? key : before + "." + key;
  YAML::Node to{at};
  if (in_list) {
    if (!at.IsMap() || !at[key] || !at[key].IsSequence())
      return;
    for (size_t i = 0; i < at[key].size(); ++i)
      fill_in(at[key][i], rest, name + "[" + std::to_string(i) + "]", value,
              filled);
  } else if (!rest.empty()) {
    fill_in(to[key], rest, name, value, filled);
  } else if (!at.IsMap() || !at[key]) {
    to[key] = YAML::Clone(value);
    filled.push_back(name);
  }
}

} // namespace detail

/// Inserts each value, "a.b[].c=VALUE", if the document does not have this key.
/// Returns the inserted keys. "[]" stands for each element of a list; a value
/// for a missing list is skipped.
inline std::vector<std::string>
fill_in(const YAML::Node& root, const std::vector<std::string>& values) {
  std::vector<std::string> out;
  for (auto& x : values) {
    auto equals = x.find('=');
    detail::fill_in(root, x.substr(0, equals), "",
                    YAML::Load(x.substr(equals + 1)), out);
  }
  return out;
}

} // namespace millrace

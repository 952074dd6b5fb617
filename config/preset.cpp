// SPDX-License-Identifier: Apache-2.0
#include "config/preset.hpp"

#include <algorithm>
#include <filesystem>

#include "runtime/bytes.hpp"
#include "runtime/program_folder.hpp"
#include "runtime/text.hpp"
#include "runtime/yaml_record.hpp"

namespace millrace {

std::string presets_folder() {
  return program_folder() + "/policies";
}

std::vector<std::string> preset_names() {
  return yaml_names_in(presets_folder());
}

result<preset> read_preset(const std::string& name, const std::string& base) {
  namespace fs = std::filesystem;
  auto is_path = name.find('/') != std::string::npos || name.ends_with(".yaml");
  auto path = is_path ? (fs::path{base} / name).lexically_normal().string()
                      : presets_folder() + "/" + name + ".yaml";
  auto known = preset_names();
  if (!is_path && std::count(known.begin(), known.end(), name) == 0)
    return error{ec::bad_config,
                 "expected the path of a file or one of "
                   + joined(known, ", ", [](auto& x) { return x; }) + ", found "
                   + shown(name),
                 {}};
  constexpr size_t largest = 1u << 20;
  auto text = read_file(path, largest);
  if (!text)
    return error{ec::bad_config, text.failure().text, {}};
  preset out;
  if (auto done = yaml_reader{path}.read(*text, out); !done)
    return done.failure();
  return out;
}

result<std::vector<std::string>> preset_values(const std::string& name,
                                               const std::string& base) {
  auto found = read_preset(name, base);
  if (!found)
    return found.failure();
  std::vector<std::string> out;
  for (auto& [key, value] : found->set)
    out.push_back(key + "=" + value);
  return out;
}

} // namespace millrace

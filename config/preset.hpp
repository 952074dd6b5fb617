// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/limits.hpp"

namespace millrace {

/// A file of config/policies: the options with which a cluster or a scenario
/// decides like a published system.
struct preset {
  std::string about;
  std::map<std::string, std::string> set;
  MILLRACE_FIELDS(preset, about, set)
  static constexpr auto notes() {
    return std::array{
      note{"the system and the publication that describes it"},
      note{"values by key, such as bulk.topology. [] in a key stands for each"
           " element of a list: models[].scaling.parts"}};
  }
};

/// The folder with the presets of this program: beside the program, or in the
/// package.
std::string presets_folder();

/// The names of the presets, sorted.
std::vector<std::string> preset_names();

/// Reads a preset by name or path. A path is relative to `base`, the folder of
/// the file that names the preset. Errors: bad_config.
result<preset> read_preset(const std::string& name, const std::string& base);

/// The values of a preset as "KEY=VALUE", for yaml_reader.
result<std::vector<std::string>> preset_values(const std::string& name,
                                               const std::string& base);

} // namespace millrace

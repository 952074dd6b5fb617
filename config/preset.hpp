// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/limits.hpp"

namespace millrace {

/// A file of config/policies: the options that make a cluster, or a scenario,
/// decide as one system of the literature does.
struct preset {
  std::string about;
  std::map<std::string, std::string> set;
  MILLRACE_FIELDS(preset, about, set)
  static constexpr auto notes() {
    return std::array{
      note{"the system, and the place of its description"},
      note{"values by key, such as bulk.topology; [] in a key stands for each"
           " element of a list: models[].scaling.parts"}};
  }
};

/// Where the presets of this program are: beside it, or of the package.
std::string presets_folder();

/// Their names, in order.
std::vector<std::string> preset_names();

/// Reads a preset by its name, or by a path, which is taken from `base`, the
/// folder of the file that names it. Errors: bad_config.
result<preset> read_preset(const std::string& name, const std::string& base);

/// For yaml_reader: values as "KEY=VALUE".
result<std::vector<std::string>> preset_values(const std::string& name,
                                               const std::string& base);

} // namespace millrace

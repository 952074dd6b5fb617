// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace millrace {

/// The folder of internal programs and plugins: lib/millrace beside the bin/ of
/// this program. If this program is internal itself, its own folder.
std::string program_folder();

/// The names of the .yaml files in a folder, sorted and without the extension;
/// empty when the folder cannot be read.
std::vector<std::string> yaml_names_in(const std::string& folder);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace millrace {

/// Where programs and plugins lie that are for our programs and not for people:
/// lib/millrace beside the bin/ that this program was started from, or this
/// program's own folder where it is such a one.
std::string program_folder();

/// The .yaml files of a folder by their names without the ending, in order;
/// none where the folder cannot be read.
std::vector<std::string> yaml_names_in(const std::string& folder);

} // namespace millrace

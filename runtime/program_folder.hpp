// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace millrace {

/// Where programs and plugins lie that are for our programs and not for people:
/// lib/millrace beside the bin/ that this program was started from, or this
/// program's own folder where it is such a one.
std::string program_folder();

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/error.hpp"

namespace millrace {

/// Reads the lines of a file, gzipped or not, without line ends and without
/// empty lines at the end. Errors: bad_request.
result<std::vector<std::string>> read_lines(const std::string& path);

} // namespace millrace

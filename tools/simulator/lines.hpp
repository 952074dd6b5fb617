// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/error.hpp"

namespace millrace {

/// The lines of a file, gzipped or not, without what ends them and without
/// empty lines at the end. Errors: bad_request.
result<std::vector<std::string>> read_lines(const std::string& path);

} // namespace millrace

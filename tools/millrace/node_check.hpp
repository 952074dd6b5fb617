// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace millrace {

/// Checks a config against the files on this host: the profiles, and the
/// models' bundles in the workers' folders. Returns warnings, one sentence
/// each. Errors: bad_config for profiles that cannot be read, and for bundles
/// that cannot be opened or cut as configured.
result<std::vector<std::string>> check_beside(const cluster_config& config);

} // namespace millrace

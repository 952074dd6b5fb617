// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace millrace {

/// Holds a config against what lies beside it on this host: its profiles, and
/// the bundles of its models, where its workers would look for them. Returns
/// what may be meant so, a sentence each.
/// Errors: bad_config for what cannot work: profiles that cannot be read,
/// bundles that cannot be opened or cut as their model's settings say.
result<std::vector<std::string>> check_beside(const cluster_config& x);

} // namespace millrace

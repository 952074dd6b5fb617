// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/verbs.hpp"
#include "simulator/explore.hpp"

namespace millrace {

/// Explores seeds one after the other, from the first on, and prints what they
/// showed. With many, in chunks and in processes of their own, `again` being
/// the arguments that say the same of scenario and bug to those.
int run_explore(const loaded_scenario& what, uint64_t first, size_t count,
                const simulator::exploration& how,
                const std::vector<std::string>& again,
                const common_options& common);

} // namespace millrace

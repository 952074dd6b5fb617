// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "millrace/verbs.hpp"

namespace millrace {

/// Runs `millrace simulate` for every combination of the values of "KEY=A,B,C",
/// in as many processes at once as there are cores, and prints one table, or
/// one JSON array. `same`: arguments of all runs. With `out`, each run writes
/// into its own subdirectory.
int run_sweep(const std::string& file, const std::vector<std::string>& sweeps,
              const std::vector<std::string>& same, const std::string& out,
              const common_options& common);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "millrace/verbs.hpp"
#include "simulator/tables.hpp"

namespace millrace {

/// Limit for the number of processes on this host.
constexpr size_t most_real_nodes = 32;

/// Runs a scenario of at most most_real_nodes nodes and without faults, with
/// one seed, in real processes and in the simulator. Writes a page that
/// compares the two, DIRECTORY/truth.md with truth.svg, and prints its table.
int run_truth(const loaded_scenario& what, uint64_t seed,
              const std::string& directory, const common_options& common);

} // namespace millrace

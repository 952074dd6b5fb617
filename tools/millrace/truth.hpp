// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "millrace/verbs.hpp"
#include "simulator/tables.hpp"

namespace millrace {

/// Processes that one host is asked to run.
constexpr size_t most_real_nodes = 32;

/// Runs a scenario of no more nodes than that, and without faults, really and
/// simulated, with one seed, and writes a page that holds the two against each
/// other: DIRECTORY/truth.md with truth.svg. Prints the table of it.
int run_truth(const loaded_scenario& what, uint64_t seed,
              const std::string& directory, const common_options& common);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/verbs.hpp"
#include "simulator/explore.hpp"

namespace millrace {

/// The arguments of an exploration.
struct explore_call {
  std::string file;
  std::vector<std::string> same; ///< arguments that change the scenario
  uint64_t first = 1;            ///< the first seed
  size_t count = 1;
  simulator::exploration how;
  bool part = false; ///< a child process: the parent judges all seeds
  std::string out;   ///< directory for all files of a single seed's run
};

/// Explores seeds in order and prints the results. Several seeds are explored
/// in chunks by child processes.
int run_explore(const loaded_scenario& what, const explore_call& call,
                const common_options& common);

} // namespace millrace

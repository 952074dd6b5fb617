// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/verbs.hpp"
#include "simulator/explore.hpp"

namespace millrace {

/// What of a scenario is explored.
struct explore_call {
  std::string file;
  std::vector<std::string> same; ///< arguments that change the scenario
  uint64_t first = 1;            ///< seed
  size_t count = 1;
  simulator::exploration how;
  bool part = false; ///< of more seeds, which are judged together elsewhere
  std::string out;   ///< of one seed: where all there is of its run goes
};

/// Explores seeds one after the other, from the first on, and prints what they
/// showed; many in chunks, by processes of their own.
int run_explore(const loaded_scenario& what, const explore_call& x,
                const common_options& common);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/scenario.hpp"
#include "simulator/faults.hpp"
#include "simulator/invariants.hpp"

namespace millrace::simulator {

/// What is asked of an exploration, beside what its scenario says.
struct exploration {
  planted_bug bug = planted_bug::none;
  /// Only so many of the faults drawn, from the first.
  std::optional<size_t> faults;
};

/// What one seed showed.
struct seed_result {
  uint64_t seed = 0;
  std::vector<violation> violations;
  uint64_t hash = 0;
  uint64_t events = 0;   ///< that were seen and checked
  uint64_t messages = 0; ///< that actors handled
  uint64_t actions = 0;  ///< of network, devices, disks, clients
  uint64_t requests = 0;
  std::vector<fault> faults; ///< that were drawn
  uint64_t hits = 0;         ///< of them, while requests were open
  std::map<std::string, uint64_t> statuses; ///< of answers
  std::map<std::string, uint64_t> probes;   ///< events of the log, by name
};

/// The options of a scenario that a variation changes: "models[].policy.queue".
std::vector<std::string> options_of(variation x);

/// The faults of a seed.
std::vector<fault> faults_of(const loaded_scenario& what, uint64_t seed,
                             const exploration& how);

/// Runs one seed: what the scenario leaves open (delays, sizes, order, faults)
/// is drawn from it. `also` sees the run too, when somebody wants to look.
/// Errors: bad_request when the workload cannot be made.
result<seed_result> explore_seed(const loaded_scenario& what, uint64_t seed,
                                 const exploration& how,
                                 watcher* also = nullptr);

/// The fewest faults, from the first, with which the seed still breaks one of
/// the same invariants.
size_t shortest_prefix(const loaded_scenario& what, const seed_result& found,
                       exploration how);

} // namespace millrace::simulator

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

/// Options of an exploration that are not part of the scenario.
struct exploration {
  planted_bug bug = planted_bug::none;
  /// Injects only the first n of the faults drawn.
  std::optional<size_t> faults;
};

/// The result of one seed.
struct seed_result {
  uint64_t seed = 0;
  std::vector<violation> violations;
  uint64_t hash = 0;
  uint64_t events = 0;   ///< seen and checked
  uint64_t messages = 0; ///< handled by actors
  uint64_t actions = 0;  ///< of network, devices, disks, clients
  uint64_t requests = 0;
  std::vector<fault> faults;                ///< drawn from the seed
  uint64_t hits = 0;                        ///< faults while requests were open
  std::map<std::string, uint64_t> statuses; ///< number of answers by status
  std::map<std::string, uint64_t> probes;   ///< number of log events by name
};

/// The options of a scenario that a variation changes: "models[].policy.queue".
std::vector<std::string> options_of(variation varied);

/// The faults of a seed.
std::vector<fault> faults_of(const loaded_scenario& what, uint64_t seed,
                             const exploration& how);

/// Runs one seed. Delays, sizes, order and faults that the scenario leaves open
/// are drawn from the seed. `also`, if not null, watches the run, too. Errors:
/// bad_request when the workload cannot be made.
result<seed_result> explore_seed(const loaded_scenario& what, uint64_t seed,
                                 const exploration& how,
                                 watcher* also = nullptr);

/// The smallest number of faults, from the first on, with which the seed still
/// breaks one of the same invariants.
size_t shortest_prefix(const loaded_scenario& what, const seed_result& found,
                       exploration how);

} // namespace millrace::simulator

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "actors/handles.hpp"
#include "models/profile.hpp"
#include "runtime/metrics.hpp"

namespace millrace {

struct placement_options {
  uint64_t epoch = 1; ///< of this controller; higher than all earlier epochs
  /// How long to wait for inventories before the first commit, so that running
  /// replicas are adopted and not started twice.
  microseconds settle{1'000'000};
  /// Nodes with devices that are expected to join, and how long to wait for the
  /// next expected node while no replica runs. Without the wait, the first node
  /// would get all replicas.
  std::set<std::string> expected{};
  microseconds join{2'000'000};
  /// Simulated seconds from a decision to its effect, by the number of wanted
  /// replicas. Empty outside simulations.
  curve decision_seconds;
  placement_settings policy{}; ///< checked
};

/// The PLACEMENT reconciles the cluster with the proposals: it keeps the
/// replicas that nodes have, and sends the difference as deploy and evict. No
/// message of the placement is on the request path. After a failed replica the
/// placement tries the model again according to quarantine.hpp.
placement_actor::behavior_type
placement(placement_actor::stateful_pointer<struct placement_state> self,
          placement_options options, std::shared_ptr<metrics> counts);

} // namespace millrace

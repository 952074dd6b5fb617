// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "actors/handles.hpp"
#include "models/profile.hpp"
#include "runtime/metrics.hpp"

namespace millrace {

struct placement_options {
  uint64_t epoch = 1; ///< of this controller; higher than any before it
  /// How long to wait for nodes to report before the first commit, so that what
  /// runs already is adopted and not started twice.
  microseconds settle{1'000'000};
  /// Nodes with devices that are to be there, and how long to wait for another
  /// of them when nothing runs yet: whoever came first would get all of it.
  std::set<std::string> expected{};
  microseconds join{2'000'000};
  /// What a decision takes before it has effect, by replicas wanted, where that
  /// is not what it really takes.
  curve decision_seconds;
  placement_settings policy{}; ///< checked
};

/// Makes the cluster what the proposals want: keeps what every node has, and
/// sends the difference as deploy and evict. Nothing it sends is on the request
/// path. A model whose replica failed is tried again as quarantine.hpp says.
placement_actor::behavior_type
placement(placement_actor::stateful_pointer<struct placement_state> self,
          placement_options options, std::shared_ptr<metrics> counts);

} // namespace millrace

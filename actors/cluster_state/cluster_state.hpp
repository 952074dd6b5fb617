// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"

namespace millrace {

struct cluster_state_options {
  uint64_t epoch = 1; ///< of this controller
  microseconds demand_period{250'000};
  /// Between two snapshots, at least.
  microseconds pause{100'000};
};

/// Puts together what registry, placement and gateways report, and gives it to
/// placement, autoscaler and provider (which may be null) as numbered
/// snapshots: the first at once, others at most every `pause`. Before the
/// registry has sent the intent there is none.
cluster_state_actor::behavior_type
cluster_state(cluster_state_actor::stateful_pointer<struct observer_state> self,
              cluster_state_options options, placement_actor placement,
              autoscaler_actor autoscaler, provider_actor provider);

} // namespace millrace

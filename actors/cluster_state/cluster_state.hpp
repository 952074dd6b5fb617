// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"

namespace millrace {

struct cluster_state_options {
  uint64_t epoch = 1; ///< of this controller
  microseconds demand_period{250'000};
  /// Shortest interval between two snapshots.
  microseconds pause{100'000};
};

/// The CLUSTER STATE combines reports of registry, placement and gateways into
/// numbered snapshots for placement, autoscaler and provider (which may be
/// null). The first snapshot is sent at once, later ones at most every `pause`.
/// No snapshot is sent before the registry has sent the intent.
cluster_state_actor::behavior_type
cluster_state(cluster_state_actor::stateful_pointer<struct observer_state> self,
              cluster_state_options options, placement_actor placement,
              autoscaler_actor autoscaler, provider_actor provider);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"
#include "models/profile.hpp"
#include "runtime/metrics.hpp"

namespace millrace {

struct autoscaler_options {
  uint64_t epoch = 1; ///< of this controller
  uint64_t seed = 1;  ///< seed of random choices of policies
  /// Simulated seconds from a decision to its effect, by the number of models
  /// in the scope. Empty outside simulations.
  curve decision_seconds{};
};

/// The AUTOSCALER runs the policy of each scope when a setting or a bundle of
/// one of its models has changed, and when the policy is due. The autoscaler
/// has no code for a particular policy. It sends changed groups to the
/// placement, and the wanted number of machines to the provider (which may be
/// null), and keeps the last decisions.
autoscaler_actor::behavior_type
autoscaler(autoscaler_actor::stateful_pointer<struct autoscaler_state> self,
           autoscaler_options options, placement_actor placement,
           provider_actor provider, std::shared_ptr<metrics> counts);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "models/partition/planner.hpp"

namespace millrace {

/// Replicas that answer requests of one queue, all alike: the first answer of
/// each, and the time between its answers, in seconds from now.
struct replica_class {
  uint64_t count = 0;
  double first = 0;
  double period = 0; ///< more than 0
};

/// The mean time to the answers of so many requests when each is given to the
/// replica that answers it first. Of one class it is eq. 4.8. Infinite without
/// replicas. At least one request.
double mean_response(std::span<const replica_class> replicas,
                     uint64_t requests);

/// What devices a model is to start on.
struct scale_up {
  uint64_t requests = 1;  ///< that wait, and will come meanwhile (eq. 4.14)
  uint64_t devices = 1;   ///< in all
  uint64_t primed = 0;    ///< of them: on hosts that have the model in memory
  double primed_cold = 0; ///< seconds until a full replica there is loaded
};

/// What to start.
struct deployment {
  uint64_t primed = 0;             ///< full replicas where hosts have the model
  uint64_t groups = 0;             ///< of the plan's parts
  uint64_t full = 0;               ///< full replicas on what is left over
  const partition* plan = nullptr; ///< the planner's; null without groups
  double mean_response = 0;        ///< seconds
};

/// The best use of the devices: full replicas where the model is in memory, for
/// those take their send alone while parts would take it from hosts that want
/// it whole; groups of equal cuts on the others, and full replicas on the
/// devices that make no group. The thesis leaves open what becomes of these,
/// and that a plan made of costs from far away may be worse than a start
/// nearby. Exact among these: with replicas of several kinds T grows with a
/// group's first answer and its period, but is linear in neither, so that every
/// plan counts that no other is as good as in both.
deployment best_deployment(const partition_planner& plans, const scale_up& x);

} // namespace millrace

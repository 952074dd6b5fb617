// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "models/partition/planner.hpp"

namespace millrace {

/// Equal replicas that answer requests of one queue: the time of the first
/// answer of each, and the time between its answers, in seconds from now.
struct replica_class {
  uint64_t count = 0;
  double first = 0;
  double period = 0; ///< above 0
};

/// The mean time to the answers of `requests` requests when each is assigned to
/// the replica that answers it first. For one class it is eq. 4.8. Infinite
/// without replicas. Requires at least one request.
double mean_response(std::span<const replica_class> replicas,
                     uint64_t requests);

/// The demand and the devices for a start of replicas.
struct scale_up {
  uint64_t requests = 1;  ///< waiting, and expected meanwhile (eq. 4.14)
  uint64_t devices = 1;   ///< total
  uint64_t primed = 0;    ///< devices on hosts that have the model in memory
  double primed_cold = 0; ///< seconds until a full replica there is loaded
};

/// The replicas to start.
struct deployment {
  uint64_t primed = 0; ///< full replicas on primed devices
  uint64_t groups = 0; ///< groups of the plan's parts
  uint64_t full = 0;   ///< full replicas on the remaining devices
  /// Owned by the planner; null without groups.
  const partition* plan = nullptr;
  double mean_response = 0; ///< seconds
};

/// The best use of the devices:
/// - full replicas where the model is in memory: they need only their send,
///   while parts would have to fetch it from hosts that use it whole;
/// - groups with equal cuts on the other devices;
/// - full replicas on devices that are left over.
///
/// The thesis leaves the last case open, and also that a plan with costs of a
/// remote start may be worse than a start nearby. The result is exact among
/// these choices: with several kinds of replicas T grows with a group's first
/// answer and its period, but is linear in neither, so all Pareto-optimal plans
/// are tried.
deployment best_deployment(const partition_planner& plans,
                           const scale_up& demand);

} // namespace millrace

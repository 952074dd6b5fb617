// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "actors/policies/scale/scaling_policy.hpp"

namespace millrace {

/// The part of a device that a replica of a group takes: the largest of its
/// units, its weights, its share, and 1 / `replicas` unless that is 0. 1 when
/// none is known.
double device_part(const device_info& device, const replica_group& group,
                   uint64_t replicas, const cluster_snapshot& in);

/// The fewest machines of a pool on which the groups of a proposal have room,
/// together with all nodes outside the pool. Devices with replicas of other
/// scopes are not free. Limits of the pool are not applied. An estimate: parts
/// of devices are summed, and bundles are ignored.
uint64_t machines_needed(const cluster_snapshot& in, const std::string& pool,
                         const proposal& proposed);

/// Runs a policy, then adds the machines of the scope's pool unless the policy
/// has set `machines`. An increase to machines_needed takes effect at once, a
/// decrease only after less was needed for `idle` of the pool. No machines are
/// set in the first seconds of a controller.
proposal propose_with_machines(const scaling_policy& policy,
                               const std::string& scope,
                               const cluster_snapshot& in,
                               policy_memory& memory, random_stream& random,
                               timestamp now);

/// When to run the policy again: as next_due of the policy, and for a scope
/// with a pool every `every`.
timestamp next_due_with_machines(const scaling_policy& policy,
                                 const scope_settings& scope,
                                 const policy_memory& memory, timestamp now);

} // namespace millrace

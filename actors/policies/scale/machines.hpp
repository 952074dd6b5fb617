// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "actors/policies/scale/scaling_policy.hpp"

namespace millrace {

/// The part of a device that a replica of a group takes: the largest of its
/// units, its weights and its share, and of 1 / `replicas` where that is not 0.
/// 1 where none of these is known.
double device_part(const device_info& device, const replica_group& x,
                   uint64_t replicas, const cluster_snapshot& in);

/// The fewest machines of a pool on which, together with all nodes outside the
/// pool, the groups of a proposal have room. Devices that replicas of other
/// scopes take are not free. Limits of the pool are not applied. An estimate:
/// parts of devices are added up, and bundles are not looked at.
uint64_t machines_needed(const cluster_snapshot& in, const std::string& pool,
                         const proposal& x);

/// Asks a policy, then adds the machines of the scope's pool unless the policy
/// has set `machines` itself: as many as machines_needed, at once; fewer than
/// there are only after less was needed for `idle` of the pool. None in the
/// first seconds of a controller.
proposal propose_with_machines(const scaling_policy& policy,
                               const std::string& scope,
                               const cluster_snapshot& in,
                               policy_memory& memory, random_stream& random,
                               timestamp now);

/// When to ask again: as next_due of the policy, and every `every` where the
/// scope has a pool.
timestamp next_due_with_machines(const scaling_policy& policy,
                                 const scope_settings& scope,
                                 const policy_memory& memory, timestamp now);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"
#include "transport/bus.hpp"

namespace millrace {

struct replica_options {
  assignment what;
  std::string node;
  executor_actor executor;
  cache_actor cache;
  supervisor_actor supervisor;
  uint32_t lanes = 1;       ///< lanes of the device
  device_sharing sharing{}; ///< sharing of the device in force
  caf::actor_id extends_replica =
    0; ///< the replica that what.extends_replica names
  std::shared_ptr<span_recorder> spans;
};

/// A loaded copy of a model, or of some of its layers. Fetches the bundle, has
/// it loaded and warmed up, then announces itself to every gateway. Each
/// gateway gets its own credit, so that the replica holds at most gateways
/// times (lanes + overlap) batches. If the replica has not the last layers, it
/// forwards the output to the replica that the router names, and keeps it until
/// then. Reports its condition to the supervisor; ends when the bundle cannot
/// be fetched or loaded.
replica_actor::behavior_type
replica(replica_actor::stateful_pointer<struct replica_state> self,
        replica_options options, bus* net);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "actors/handles.hpp"
#include "runtime/metrics.hpp"

namespace millrace {

struct router_options {
  std::string node;
  std::string model;
  uint64_t version = 0;
  int batch_axis = 0;
  serving_policy policy;
  uint64_t seed = 0; ///< of the random stream
  std::shared_ptr<span_recorder> spans = std::make_shared<span_recorder>();
  /// Longest time between the down messages of one death at two nodes.
  microseconds death_notice{250'000};
  bool waits = false; ///< requests also wait before the first replica is ready
};

/// Most attempts of a request.
inline constexpr uint32_t max_attempts = 2;

/// Holds one model's queue and gives batches to replicas with credit, as late
/// as possible. The batch of a lost replica goes back to the front of the
/// queue. A request that was lost twice is answered poison if it can have
/// caused both losses, else unavailable. If the model's process ended both
/// times, the inputs are refused as poison from then on. The requests of a
/// failed batch run again one by one, so that a bad request fails alone. Sends
/// the gateway one requests_completed or requests_returned for each routed
/// request. Requests from another router go to the front of the queue and are
/// bounded by the gateway only.
router_actor::behavior_type
router(router_actor::stateful_pointer<struct router_state> self,
       router_options options, gateway_actor gateway,
       std::shared_ptr<metrics> counts);

} // namespace millrace

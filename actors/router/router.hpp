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
  uint64_t seed = 0; ///< of what is left to chance
  std::shared_ptr<span_recorder> spans = std::make_shared<span_recorder>();
  /// Within so long of each other two nodes hear of the death of a third.
  microseconds death_notice{250'000};
  bool waits = false; ///< requests wait also before there is a first replica
};

/// Times a request may be given to a replica before it is answered.
inline constexpr uint32_t max_attempts = 2;

/// Holds one model's queue and gives batches to the replica with the most
/// credit: requests bind late. A batch whose replica is lost goes back to the
/// front of the queue. A request that was lost twice is answered poison if it
/// can have been to blame both times, else unavailable; when its model's
/// process ended both times, its inputs are poison from then on. A batch that
/// fails is run again request by request, so that one bad request does not fail
/// its neighbours. Sends the gateway either requests_completed or
/// requests_returned, once for each that is routed. What is handed on to it
/// goes in front and counts to no bound but the gateway's.
router_actor::behavior_type
router(router_actor::stateful_pointer<struct router_state> self,
       router_options options, gateway_actor gateway,
       std::shared_ptr<metrics> counts);

} // namespace millrace

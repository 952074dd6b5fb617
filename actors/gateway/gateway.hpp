// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"
#include "runtime/metrics.hpp"
#include "transport/bus.hpp"
#include "transport/keys/key_file.hpp"

namespace millrace {

struct gateway_options {
  uint64_t max_requests = 65'536;            ///< admitted at once
  byte_count max_bytes{512u << 20};          ///< of their inputs
  byte_count max_client_bytes{256u << 20};   ///< of one connection's inputs
  microseconds max_deadline{86'400'000'000}; ///< longer ones are cut to this
  size_t max_models = 1024; ///< versions with a router; idle ones make room
  microseconds latency_valid{10'000'000}; ///< then a model is tried anew
  /// Whose clients come in at each endpoint, by its number.
  std::vector<std::string> tenants{default_tenant};
  std::shared_ptr<span_recorder> spans = std::make_shared<span_recorder>();
  microseconds death_notice{250'000}; ///< as its routers have it
  microseconds demand_period{
    0}; ///< between reports of demand; 0: there are none
  /// No replica is taken before a controller has assigned it. False: while no
  /// controller has been connected, all that announce themselves are.
  bool only_assigned = false;
  selection_policy selection = selection_policy::quickest;
};

/// Holds every admitted request until it has its one final answer: the
/// router's, or deadline_exceeded when that comes first, or unavailable when
/// what it asked for is served no more. What comes later is
/// counted and dropped. Spawns a router per model version that some replica
/// announces.
gateway_actor::behavior_type
gateway(gateway_actor::stateful_pointer<struct gateway_state> self,
        gateway_options options, bus* net, std::shared_ptr<metrics> counts);

} // namespace millrace

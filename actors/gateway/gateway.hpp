// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"
#include "runtime/metrics.hpp"
#include "transport/bus.hpp"
#include "transport/keys/key_file.hpp"

namespace millrace {

struct gateway_options {
  uint64_t max_requests = 65'536;            ///< open requests
  byte_count max_bytes{512u << 20};          ///< inputs of open requests
  byte_count max_client_bytes{256u << 20};   ///< the same of one connection
  microseconds max_deadline{86'400'000'000}; ///< later deadlines are cut
  size_t max_models = 1024; ///< versions with a router; idle ones are replaced
  microseconds latency_valid{10'000'000}; ///< age limit of a known latency
  /// Tenant of each client endpoint, by the number of the endpoint.
  std::vector<std::string> tenants{default_tenant};
  std::shared_ptr<span_recorder> spans = std::make_shared<span_recorder>();
  microseconds death_notice{250'000}; ///< as in router_options
  microseconds demand_period{0};      ///< between demand reports; 0: no reports
  /// Uses only replicas that a controller has assigned. False: all replicas,
  /// until the first controller has connected.
  bool only_assigned = false;
  selection_policy selection = selection_policy::quickest;
};

/// Holds every admitted request until its one final answer: the router's;
/// deadline_exceeded if the deadline comes first; or unavailable if its model
/// is no longer served. Later answers are counted and dropped. Spawns a router
/// for each model version that a replica announces.
gateway_actor::behavior_type
gateway(gateway_actor::stateful_pointer<struct gateway_state> self,
        gateway_options options, bus* net, std::shared_ptr<metrics> counts);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "actors/executor/executor.hpp"
#include "actors/handles.hpp"
#include "actors/node/health.hpp"
#include "transport/bus.hpp"

namespace millrace {

/// An actor the supervisor keeps alive. Those of a group fall and rise
/// together.
struct child_spec {
  std::string name;  ///< published as NODE/NAME
  std::string group; ///< empty: on its own
  std::function<caf::actor(supervisor_actor::pointer)> start;
};

/// What a node is made of, as its config says.
struct supervisor_options {
  bus* net = nullptr;
  std::shared_ptr<metrics> counts;
  std::shared_ptr<health> state;
  std::shared_ptr<span_recorder> spans;
  std::vector<child_spec> children; ///< in order of start
  std::vector<device_info> devices;
  std::set<std::string> configured; ///< nodes of the config
  bool worker = false;
  microseconds drain_timeout{30'000'000};
  std::function<void()> ended; ///< called once when the node has drained
};

/// Starts a node's actors in order and restarts those that crash, within a
/// budget; when it is used up the node is out of service, with the reason kept.
/// Starts and ends replicas as the controller with the highest epoch says, and
/// tells every controller what this node has whenever that changes.
supervisor_actor::behavior_type
supervisor(supervisor_actor::stateful_pointer<struct supervisor_state> self,
           supervisor_options options);

} // namespace millrace

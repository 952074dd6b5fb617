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

/// An actor that the supervisor restarts. The actors of a group restart
/// together.
struct child_spec {
  std::string name;  ///< published as NODE/NAME
  std::string group; ///< empty: on its own
  std::function<caf::actor(supervisor_actor::pointer)> start;
};

/// The parts of a node, from its config.
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

/// The SUPERVISOR starts a node's actors in order and restarts those that
/// crash, within a budget. When the budget is used up, the node is out of
/// service and keeps the reason. The supervisor starts and ends replicas on
/// orders of the controller with the highest epoch, and sends each change of
/// the node's inventory to every controller.
supervisor_actor::behavior_type
supervisor(supervisor_actor::stateful_pointer<struct supervisor_state> self,
           supervisor_options options);

} // namespace millrace

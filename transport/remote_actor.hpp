// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <caf/actor_proxy.hpp>

#include "transport/switchboard.hpp"

namespace millrace {

/// A handle to an actor of another node: encodes the messages sent to it and
/// passes them to the switchboard.
class remote_actor : public caf::actor_proxy {
public:
  remote_actor(caf::actor_config& cfg, switchboard& out, std::string node,
               uint64_t incarnation, std::string name);

  const std::string& node() const { return node_; }
  uint64_t incarnation() const { return incarnation_; }
  /// Name within its node: "role/name" or "#id".
  const std::string& actor_name() const { return name_; }

  void enqueue(caf::mailbox_element_ptr what,
               caf::execution_unit* host) override;
  void kill_proxy(caf::execution_unit* host, caf::error reason) override;

private:
  switchboard& out_;
  std::string node_;
  uint64_t incarnation_;
  std::string name_;
};

/// Null for an actor of this node, and for a null handle.
const remote_actor* as_proxy(const caf::strong_actor_ptr& actor);

/// Name of the node that runs an actor; `here` for an actor of this process.
std::string node_of(const caf::strong_actor_ptr& actor,
                    const std::string& here);

} // namespace millrace

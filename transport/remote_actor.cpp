// SPDX-License-Identifier: Apache-2.0
#include "transport/remote_actor.hpp"

#include <caf/mailbox_element.hpp>

namespace millrace {

remote_actor::remote_actor(caf::actor_config& cfg, switchboard& out,
                           std::string node, uint64_t incarnation,
                           std::string name)
  : caf::actor_proxy(cfg),
    out_(out),
    node_(std::move(node)),
    incarnation_(incarnation),
    name_(std::move(name)) {
}

const remote_actor* as_proxy(const caf::strong_actor_ptr& actor) {
  return dynamic_cast<const remote_actor*>(
    caf::actor_cast<caf::abstract_actor*>(actor));
}

std::string node_of(const caf::strong_actor_ptr& actor,
                    const std::string& here) {
  auto* proxy = as_proxy(actor);
  return proxy == nullptr ? here : proxy->node();
}

void remote_actor::enqueue(caf::mailbox_element_ptr what,
                           caf::execution_unit*) {
  if (what == nullptr)
    return;
  if (getf(is_terminated_flag)) {
    bounce(what);
    return;
  }
  out_.forward(*this, *what);
}

void remote_actor::kill_proxy(caf::execution_unit* host, caf::error reason) {
  cleanup(std::move(reason), host);
}

} // namespace millrace

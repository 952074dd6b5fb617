// SPDX-License-Identifier: Apache-2.0
#include "transport/operator_session.hpp"

#include <caf/make_actor.hpp>

namespace millrace {

caf::strong_actor_ptr operator_sessions::of(const std::string& connection) {
  if (auto i = sessions_.find(connection); i != sessions_.end())
    return i->second;
  // A pending answer holds a reference to its session.
  if (sessions_.size() >= most)
    std::erase_if(sessions_,
                  [](auto& x) { return x.second->strong_refs == 1; });
  if (sessions_.size() >= most)
    return nullptr;
  caf::actor_config cfg;
  auto x = caf::make_actor<operator_session, caf::strong_actor_ptr>(
    system_.next_actor_id(), system_.node(), &system_, cfg, connection,
    answer_);
  sessions_.emplace(connection, x);
  return x;
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#include "transport/membership.hpp"

#include "runtime/actor.hpp"

namespace millrace {

namespace {

template <class T>
void enqueue(const caf::strong_actor_ptr& to, T x, caf::execution_unit* host) {
  to->enqueue(nullptr, caf::message_id{}, caf::make_message(std::move(x)),
              host);
}

} // namespace

template <class T>
void membership::tell(const member& about, const T& message) {
  std::erase_if(subscribers_, [&](auto& s) {
    auto to = caf::actor_cast<caf::strong_actor_ptr>(s.who);
    if (to && (s.role.empty() || about.has_role(s.role)))
      enqueue(to, message, host_);
    return to == nullptr;
  });
}

void membership::heard(const member& node) {
  std::lock_guard guard{mutex_};
  heard_[node.name] = node.incarnation;
}

void membership::up(const member& node) {
  std::lock_guard guard{mutex_};
  heard_[node.name] = node.incarnation;
  up_[node.name] = node;
  lost_.erase(node.name);
  left_.erase(node.name);
  tell(node, peer_up{node});
}

void membership::down(const peer_down& message, timestamp now) {
  std::lock_guard guard{mutex_};
  heard_.erase(message.peer.name);
  // A link that was never up does not count as a loss of its node.
  auto was_up = up_.erase(message.peer.name) != 0;
  // The connection may end before the goodbye arrives: the node counts as lost
  // until then.
  auto was_lost = message.left && lost_.erase(message.peer.name);
  if (was_up || was_lost)
    (message.left ? left_ : lost_).add(message.peer, message.reason, now);
}

void membership::tell_down(const peer_down& message) {
  std::lock_guard guard{mutex_};
  tell(message.peer, message);
}

uint64_t membership::incarnation_of(std::string_view node) const {
  std::lock_guard guard{mutex_};
  auto i = heard_.find(node);
  return i == heard_.end() ? 0 : i->second;
}

member_list membership::list(timestamp now) const {
  std::lock_guard guard{mutex_};
  member_list out{self_, {}, lost_.list(now), left_.list(now)};
  for (auto& [name, x] : up_)
    out.peers.push_back(x);
  return out;
}

void membership::subscribe(const caf::strong_actor_ptr& actor,
                           std::string role) {
  std::lock_guard guard{mutex_};
  // tell() also drops ended subscribers, but runs only when a link changes.
  std::erase_if(subscribers_, [](auto& s) {
    return caf::actor_cast<caf::strong_actor_ptr>(s.who) == nullptr;
  });
  for (auto& [name, m] : up_)
    if (role.empty() || m.has_role(role))
      enqueue(actor, peer_up{m}, host_);
  subscribers_.push_back(
    {caf::actor_cast<caf::weak_actor_ptr>(actor), std::move(role)});
}

} // namespace millrace

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
void membership::tell(const member& about, const T& x) {
  std::erase_if(subscribers_, [&](auto& s) {
    auto to = caf::actor_cast<caf::strong_actor_ptr>(s.who);
    if (to && (s.role.empty() || about.has_role(s.role)))
      enqueue(to, x, host_);
    return to == nullptr;
  });
}

void membership::heard(const member& x) {
  std::lock_guard guard{mutex_};
  heard_[x.name] = x.incarnation;
}

void membership::up(const member& x) {
  std::lock_guard guard{mutex_};
  heard_[x.name] = x.incarnation;
  up_[x.name] = x;
  lost_.erase(x.name);
  left_.erase(x.name);
  tell(x, peer_up{x});
}

void membership::down(const peer_down& x, timestamp now) {
  std::lock_guard guard{mutex_};
  heard_.erase(x.peer.name);
  // A link that never stood both ways says nothing of its node.
  auto was_up = up_.erase(x.peer.name) != 0;
  // The connection may end before the goodbye arrives: the node counts as lost
  // until then.
  auto was_lost = x.left && lost_.erase(x.peer.name);
  if (was_up || was_lost)
    (x.left ? left_ : lost_).add(x.peer, x.reason, now);
}

void membership::tell_down(const peer_down& x) {
  std::lock_guard guard{mutex_};
  tell(x.peer, x);
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

void membership::subscribe(const caf::strong_actor_ptr& x, std::string role) {
  std::lock_guard guard{mutex_};
  // On a node whose peers stay the same nobody else would.
  std::erase_if(subscribers_, [](auto& s) {
    return caf::actor_cast<caf::strong_actor_ptr>(s.who) == nullptr;
  });
  for (auto& [name, m] : up_)
    if (role.empty() || m.has_role(role))
      enqueue(x, peer_up{m}, host_);
  subscribers_.push_back(
    {caf::actor_cast<caf::weak_actor_ptr>(x), std::move(role)});
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#include "tests/support/virtual_node.hpp"

#include <doctest/doctest.h>

namespace millrace::test {

virtual_bus::virtual_bus(virtual_world& world, virtual_net& net, member self)
  : switchboard_bus(world.system, self.name),
    world_(world),
    net_(net),
    self_(std::move(self)) {
}

void virtual_bus::subscribe(caf::strong_actor_ptr x) {
  subscribers_.push_back(x);
  for (auto& [name, other] : net_.nodes_)
    if (other.get() != this && !net_.cut_[name])
      x->enqueue(nullptr, caf::message_id{},
                 caf::make_message(peer_up{other->self_}), nullptr);
}

void virtual_bus::request(uint64_t id, infer x, microseconds deadline,
                          const std::string& connection) {
  auto group = std::make_shared<request_group>(this, session{0, connection});
  auto& y = group->requests.emplace_back();
  y.tag.id = id;
  y.due = {world_.now() + deadline};
  y.request = std::move(x);
  if (gateway_)
    gateway_->enqueue(nullptr, caf::message_id{},
                      caf::make_message(client_requests{std::move(group)}),
                      nullptr);
}

bool virtual_bus::carry(const std::string& node, uint64_t, wire_message x) {
  auto i = net_.nodes_.find(node);
  if (i == net_.nodes_.end() || net_.cut_[node] || net_.cut_[self_.name])
    return false;
  // Through the bytes of a header, as on a real wire.
  auto frame = encode_header(x.head, world_.now());
  auto opened = open_frame(frame.view(), world_.now());
  REQUIRE(opened);
  x.head = opened->head;
  CHECK(i->second->board_.deliver(self_, x, nullptr));
  return true;
}

virtual_bus& virtual_net::add(const std::string& name,
                              std::vector<std::string> roles) {
  member self{name, 1, "virtual://" + name, std::move(roles), ""};
  auto fresh = std::make_unique<virtual_bus>(world_, *this, self);
  for (auto& [other_name, other] : nodes_) {
    other->board_.peer_linked(self);
    fresh->board_.peer_linked(other->self_);
    tell(*other, caf::make_message(peer_up{self}));
  }
  return *(nodes_[name] = std::move(fresh));
}

void virtual_net::cut(const std::string& name) {
  cut_[name] = true;
  auto& gone = *nodes_.at(name);
  for (auto& [other_name, other] : nodes_) {
    if (other.get() == &gone)
      continue;
    other->board_.peer_lost(gone.self_, "cut off", nullptr);
    tell(*other, caf::make_message(peer_down{gone.self_, "cut off"}));
  }
}

void virtual_net::tell(virtual_bus& to, caf::message x) {
  for (auto& s : to.subscribers_)
    s->enqueue(nullptr, caf::message_id{}, x, nullptr);
}

} // namespace millrace::test

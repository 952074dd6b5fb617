// SPDX-License-Identifier: Apache-2.0

/// \file
/// Reports of a SUPERVISOR on its node, and the messages of actors that they
/// use.

#include <functional>
#include <set>
#include <tuple>

#include "actors/node/supervisor_state.hpp"
#include "runtime/text.hpp"

namespace millrace {

inventory supervisor_state::make_inventory() const {
  inventory out;
  auto& x = out.state;
  x.node = options_.net->self();
  x.devices = able_devices();
  x.models = known_models();
  x.kept = kept_;
  x.replicas = replica_statuses();
  x.draining = state_ != node_condition::ready || !options_.worker;
  x.fetches = find_child("relay") != nullptr;
  std::tie(x.cache_memory, x.held) = memory_;
  out.epoch = epoch_;
  out.sequence = sequence_;
  out.supervisor = caf::actor_cast<caf::strong_actor_ptr>(self_->ctrl());
  if (auto gateway = find_child("gateway"))
    out.gateway = caf::actor_cast<caf::strong_actor_ptr>(gateway);
  return out;
}

std::vector<device_info> supervisor_state::able_devices() const {
  auto out = options_.devices;
  std::erase_if(out, [&](auto& x) { return device_troubles_.contains(x.id); });
  return out;
}

void supervisor_state::on_device(device_condition& message) {
  auto device = "device " + message.device;
  options_.state->set_trouble(
    device, message.trouble.empty()
              ? ""
              : device + " is out of service: " + message.trouble);
  if (message.trouble.empty())
    device_troubles_.erase(message.device);
  else
    device_troubles_[message.device] = std::move(message.trouble);
  publish_soon();
}

void supervisor_state::on_bundles(bundle_list& message) {
  models_ = std::move(message.models);
  kept_ = std::move(message.kept);
  memory_ = {message.memory, std::move(message.held)};
  options_.state->set_trouble("bundles",
                              joined(message.troubles, "; ", std::identity{}));
  publish_soon();
}

/// Lists the models of this host, then those of object stores.
std::vector<model_info> supervisor_state::known_models() const {
  auto out = models_;
  std::set<std::pair<std::string, uint64_t>> named;
  for (auto& x : models_)
    named.emplace(x.model, x.version);
  for (auto& [store, models] : stored_)
    for (auto& x : models)
      if (named.emplace(x.model, x.version).second)
        out.push_back(x);
  return out;
}

void supervisor_state::on_stored(stored_models& message) {
  stored_[message.store] = std::move(message.models);
  options_.state->set_trouble("store " + message.store,
                              std::move(message.error));
  publish_soon();
}

member_list supervisor_state::on_get_members() const {
  auto out = options_.net->members();
  auto missing = options_.configured;
  missing.erase(out.self.name);
  for (auto& x : out.peers)
    missing.erase(x.name);
  for (auto* gone : {&out.lost, &out.left})
    for (auto& x : *gone)
      missing.erase(x.node.name);
  for (auto& name : missing) {
    lost_member x;
    x.node.name = name;
    x.reason = "not seen since " + out.self.name + " started";
    x.ago = to_us(now() - started_);
    out.left.push_back(std::move(x));
  }
  return out;
}

node_status supervisor_state::on_get_status() const {
  node_status out;
  out.node = options_.net->self();
  out.state = state_;
  out.reason = reason_;
  out.troubles = options_.state->troubles();
  out.uptime = to_us(now() - started_);
  out.devices = options_.devices;
  for (auto& x : device_troubles_)
    out.unusable.push_back(x.first);
  out.replicas = replica_statuses();
  out.models = known_models();
  out.actors.push_back({"supervisor", "", "running", 0});
  for (auto& x : children_)
    out.actors.push_back({x.spec.name, "supervisor", x.state, x.restarts});
  for (auto& name : options_.net->published("router/"))
    out.actors.push_back({name, "gateway", "running", 0});
  for (auto& [replica, r] : replicas_)
    out.actors.push_back({"replica/" + replica, "supervisor",
                          std::string{to_string(r.status.state)}, 0});
  return out;
}

} // namespace millrace

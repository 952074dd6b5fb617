// SPDX-License-Identifier: Apache-2.0

/// \file
/// What a SUPERVISOR says of its node, and what its actors tell it for that.

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

void supervisor_state::on_device(device_condition& x) {
  auto device = "device " + x.device;
  options_.state->set_trouble(
    device,
    x.trouble.empty() ? "" : device + " is out of service: " + x.trouble);
  if (x.trouble.empty())
    device_troubles_.erase(x.device);
  else
    device_troubles_[x.device] = std::move(x.trouble);
  publish_soon();
}

void supervisor_state::on_bundles(bundle_list& x) {
  models_ = std::move(x.models);
  kept_ = std::move(x.kept);
  memory_ = {x.memory, std::move(x.held)};
  options_.state->set_trouble("bundles",
                              joined(x.troubles, "; ", std::identity{}));
  publish_soon();
}

/// What this host has, then what is known of object stores.
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

void supervisor_state::on_stored(stored_models& x) {
  stored_[x.store] = std::move(x.models);
  options_.state->set_trouble("store " + x.store, std::move(x.error));
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

// SPDX-License-Identifier: Apache-2.0

/// \file
/// Orders of a PLACEMENT to nodes. Until a node confirms an order, the order's
/// result is applied to each inventory of the node.

#include <algorithm>

#include "actors/placement/placement_state.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

/// Pause before an adjustment that has not taken effect is sent again.
constexpr auto adjusted_again = 1s;

replica_status* find_replica(node_state& node, const std::string& replica) {
  auto i = std::find_if(node.replicas.begin(), node.replicas.end(),
                        [&](auto& r) { return r.what.replica == replica; });
  return i == node.replicas.end() ? nullptr : &*i;
}

/// Drops adjustments that are too old to be sent again.
template <class Orders>
void forget_old(Orders& sent, timestamp now) {
  std::erase_if(sent, [&](auto& entry) {
    return entry.second.at + 10 * adjusted_again < now;
  });
}

} // namespace

void placement_state::apply(node_state& node, const deploy& order) {
  if (auto* r = find_replica(node, order.what.replica))
    r->state = replica_condition::starting;
  else
    node.replicas.push_back(
      {order.what, replica_condition::starting, {}, 0, {}, {}, {}});
}

void placement_state::apply(node_state& node, const adjust& order) {
  auto* r = find_replica(node, order.replica);
  if (r == nullptr)
    return;
  r->what.tuned = order.tuned;
  r->what.policy = order.policy;
  r->what.tenants = order.tenants;
  r->what.group = order.group;
}

/// Without `sharing` the device keeps its mode until its inventory shows the
/// configured one.
void placement_state::apply(node_state& node, const adjust_device& order) {
  for (auto& device : node.devices)
    if (device.id == order.device) {
      device.ordered = order.sharing.has_value();
      device.sharing = order.sharing.value_or(device.sharing);
    }
}

void placement_state::apply(node_state& node, const evict& order) {
  if (auto* r = find_replica(node, order.replica)) {
    r->state = replica_condition::draining;
    return;
  }
  assignment what;
  what.replica = order.replica;
  node.replicas.push_back(
    {what, replica_condition::draining, {}, 0, {}, {}, {}});
}

template <class Order>
void placement_state::give_order(node_state& node, Order order) {
  order.epoch = options_.epoch;
  order.sequence = ++last_order_;
  apply(node, order);
  auto& name = node.node.name;
  changed_.insert(name);
  capacity_.changed.insert(name);
  orders_[name].push_back({order.sequence, order});
  self_->send(caf::actor_cast<supervisor_actor>(links_.at(name).supervisor),
              std::move(order));
}

void placement_state::start_replica(node_state& node, const assignment& what) {
  log_event(log_level::info, "placement", "deploy",
            {{"replica", what.replica},
             {"node", node.node.name},
             {"device", what.device}});
  view_.numbers.add(what.replica);
  starts_.add(what, now());
  give_order(node, deploy{0, 0, what});
}

/// Sends new parameters to replicas. A replica that still has other parameters
/// after a second receives them again, and its model gets a note.
void placement_state::adjust_replicas(const placement_plan& plan) {
  forget_old(adjusted_, now());
  for (auto& x : plan.adjust) {
    auto node = view_.nodes.find(x.node);
    if (node == view_.nodes.end())
      continue;
    auto before = adjusted_.find(x.replica);
    auto again = before != adjusted_.end() && before->second.what == x;
    if (again && now() < before->second.at + adjusted_again) {
      send_at(self_, before->second.at + adjusted_again, tick::value);
      continue;
    }
    if (auto* r = find_replica(node->second, x.replica); again && r != nullptr)
      notes_[r->what.model] = "replica " + x.replica + " on " + x.node
                              + " does not have the ordered parameters, which"
                                " are sent again";
    log_event(again ? log_level::warning : log_level::info, "placement",
              again ? "drift" : "adjust",
              {{"replica", x.replica},
               {"node", x.node},
               {"batch", x.tuned.batch},
               {"concurrency", x.tuned.concurrency},
               {"threads", x.tuned.threads},
               {"weight", x.tuned.weight}});
    adjusted_.insert_or_assign(x.replica, adjusted{now(), x});
    give_order(node->second,
               adjust{0, 0, x.replica, x.tuned, x.policy, x.tenants, x.group});
  }
}

void placement_state::share_device_of(
  node_state& node, const device_info& device,
  const std::optional<device_sharing>& sharing) {
  forget_old(shared_, now());
  auto place = node.node.name + "/" + device.id;
  auto last = shared_.find(place);
  auto again = last != shared_.end() && last->second.what == sharing;
  if (again && now() < last->second.at + adjusted_again)
    return send_at(self_, last->second.at + adjusted_again, tick::value);
  shared_.insert_or_assign(place, shared_device{now(), sharing});
  log_event(log_level::info, "placement", "share",
            {{"device", place},
             {"sharing", sharing ? std::string{to_string(sharing->mode)}
                                 : "as configured"},
             {"at_once", sharing ? sharing->at_once : 0u}});
  give_order(node, adjust_device{0, 0, device.id, sharing});
}

void placement_state::end_replica(node_state& node,
                                  const std::string& replica) {
  log_event(log_level::info, "placement", "evict",
            {{"replica", replica}, {"node", node.node.name}});
  view_.numbers.add(replica);
  give_order(node, evict{0, 0, replica});
}

} // namespace millrace

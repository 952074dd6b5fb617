// SPDX-License-Identifier: Apache-2.0

/// \file
/// Live costs of a PROFILER: moving averages over serving replicas, stored on
/// disk.

#include <algorithm>

#include "actors/profiler/profiler_state.hpp"
#include "transport/bus.hpp"

namespace millrace {

namespace {

/// Limit of averages, which share one row on disk. Far above the number of
/// parts of all models in a cluster.
constexpr size_t most_live = 4000;

/// Interval of writes while averages change.
constexpr auto kept_every = 1min;

/// Weight of the newest value in an average.
constexpr double newest = 0.2;

void average(double& mean, double x, uint64_t& count) {
  mean = count == 0 ? x : (1 - newest) * mean + newest * x;
  ++count;
}

} // namespace

/// Restores the stored averages.
void profiler_state::take_averages(const std::vector<live_cost>& xs) {
  for (auto& x : xs)
    if (live_
          .try_emplace({x.model, x.version, x.layers, x.device},
                       averages{x, timestamp{}})
          .second)
      costs_due_.insert(x.model);
}

void profiler_state::keep_averages() {
  auto waits = std::any_of(table_.pending().begin(), table_.pending().end(),
                           [](auto& x) { return x.of.first.empty(); });
  if (!live_changed_ || !table_.is_started() || waits
      || self_->clock().now() < live_due_)
    return;
  live_changed_ = false;
  live_due_ = self_->clock().now() + kept_every;
  table_.push({{}, std::nullopt, {}});
}

void profiler_state::on_inventory(inventory& message) {
  auto& known = view_.nodes[message.state.node.name];
  if (known.node.incarnation > message.state.node.incarnation)
    return;
  learn_loads(known, message.state);
  known = std::move(message.state);
}

void profiler_state::on_peer_down(const peer_down& message) {
  auto i = view_.nodes.find(message.peer.name);
  if (i != view_.nodes.end()
      && i->second.node.incarnation == message.peer.incarnation)
    view_.nodes.erase(i);
  for (auto j = measuring_.begin(); j != measuring_.end();) {
    auto next = std::next(j);
    if (j->first.first == message.peer.name) {
      j->second.second.deliver(
        to_caf(error{ec::unavailable,
                     "node " + message.peer.name
                       + " was lost while it measured: " + message.reason,
                     {}}));
      measuring_.erase(j);
    }
    j = next;
  }
}

live_cost& profiler_state::cost_of(const node_state& node,
                                   const replica_status& r) {
  auto device = std::find_if(node.devices.begin(), node.devices.end(),
                             [&](auto& d) { return d.id == r.what.device; });
  auto kind = device == node.devices.end() ? std::string{} : device->kind;
  cost_key at{r.what.model, r.what.version, r.what.layers, kind};
  if (live_.size() >= most_live && !live_.contains(at))
    // Reached when all possible cuts are tried.
    live_.erase(
      std::min_element(live_.begin(), live_.end(), [](auto& x, auto& y) {
        return x.second.learned < y.second.learned;
      }));
  live_changed_ = true;
  costs_due_.insert(r.what.model);
  auto& [out, learned] = live_[at];
  learned = self_->clock().now();
  out.model = r.what.model;
  out.version = r.what.version;
  out.layers = r.what.layers;
  out.device = kind;
  return out;
}

void profiler_state::learn_loads(const node_state& before,
                                 const node_state& now) {
  // The node or the profiler has just started.
  auto is_new = before.node.name.empty();
  for (auto& r : now.replicas) {
    auto was = std::find_if(before.replicas.begin(), before.replicas.end(),
                            [&](auto& y) {
                              return y.what.replica == r.what.replica
                                     && y.state == replica_condition::ready;
                            });
    if (r.state != replica_condition::ready || was != before.replicas.end())
      continue;
    auto& cost = cost_of(now, r);
    if (is_new && cost.loads > 0)
      continue; // most likely counted before the restart
    auto counted = cost.loads;
    average(cost.fetch, to_seconds(r.fetch), counted);
    average(cost.load, to_seconds(r.load), cost.loads);
    auto& start = cost.starts[std::string{to_string(where_found(r.from))}];
    counted = start.count;
    average(start.fetch, to_seconds(r.fetch), counted);
    counted = start.count;
    average(start.load, to_seconds(r.load), counted);
    average(start.warm_up, to_seconds(r.warm_up), start.count);
  }
}

void profiler_state::learn_usage(const std::string& node,
                                 const node_load& load) {
  auto at = view_.nodes.find(node);
  if (at == view_.nodes.end())
    return;
  auto& there = at->second.replicas;
  for (auto& u : load.replicas) {
    auto r = std::find_if(there.begin(), there.end(),
                          [&](auto& y) { return y.what.replica == u.replica; });
    if (r == there.end() || u.batch <= 0 || u.requests_per_second <= 0)
      continue;
    auto& cost = cost_of(at->second, *r);
    auto counted = cost.executions;
    average(cost.batch, u.batch, counted);
    average(cost.execute, u.busy * u.batch / u.requests_per_second,
            cost.executions);
    if (u.sent > 0)
      average(cost.send, u.sent, cost.sends);
  }
}

void profiler_state::on_tick() {
  self_->delayed_send(self_, options_.period, tick::value);
  keep_averages();
  publish_costs();
  for (auto& [name, node] : view_.nodes) {
    auto monitor = node.replicas.empty()
                     ? nullptr
                     : options_.net->resolve(name + "/monitor");
    if (!monitor)
      continue;
    self_
      ->request(caf::actor_cast<monitor_actor>(monitor), options_.period,
                get_load{})
      .then([this, name = name](const node_load& x) { learn_usage(name, x); },
            [](const caf::error&) { /* the next tick retries */ });
  }
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#include "actors/cluster_state/observer_state.hpp"
#include "runtime/log.hpp"

namespace millrace {

void observer_state::start(
  cluster_state_actor::stateful_pointer<observer_state> self,
  cluster_state_options options, placement_actor placement,
  autoscaler_actor autoscaler, provider_actor provider) {
  self_ = self;
  options_ = options;
  placement_ = std::move(placement);
  autoscaler_ = std::move(autoscaler);
  provider_ = std::move(provider);
  set_common_handlers(self);
  next_.emplace(options_.epoch, options_.demand_period, now());
  self->send(placement_, observe_nodes{cluster_state_actor{self}});
  if (provider_)
    self->send(provider_, observe_machines{cluster_state_actor{self}});
}

timestamp observer_state::now() const {
  return self_->clock().now();
}

/// Publishes at once: an operator waits for the effect.
void observer_state::on_registered(const registered& message) {
  next_->set_intent(message);
  alarm_.set(self_, now());
}

void observer_state::on_nodes(const nodes_changed& message) {
  next_->set_nodes(message.nodes, now());
  publish_soon();
}

void observer_state::on_costs(const costs_changed& message) {
  next_->set_costs(message.content);
  publish_soon();
}

void observer_state::on_machines(const machines_changed& message) {
  next_->set_machines(message.pools, message.machines);
  publish_soon();
}

void observer_state::on_demand(const demand_report& message) {
  if (!next_->add(message, now()))
    log_event(log_level::warning, "cluster_state", "report_ignored",
              {{"node", message.node}, {"sequence", message.sequence}});
  publish_soon();
}

/// Publishes at once: requests wait for a model without a ready replica.
void observer_state::on_pressure(const pressure& message) {
  if (next_->add(message, now()))
    alarm_.set(self_, now());
}

void observer_state::publish_soon() {
  alarm_.set(self_, published_ + options_.pause);
}

void observer_state::on_tick() {
  if (alarm_.rings(now()))
    publish();
}

/// The last plan stays in force while reports are missing; see count_policy.
void observer_state::check_gateways() {
  if (options_.demand_period == 0us)
    return;
  auto late = next_->demand().overdue(now());
  std::set<std::string> overdue{late.begin(), late.end()};
  for (auto& node : overdue)
    if (!stale_.contains(node))
      log_event(log_level::warning, "cluster_state", "demand_stale",
                {{"gateway", node}});
  stale_ = std::move(overdue);
}

void observer_state::publish() {
  if (!next_->has_intent())
    return;
  check_gateways();
  published_ = now();
  auto content = next_->take(published_);
  self_->send(placement_, snapshot_taken{content});
  if (provider_)
    self_->send(provider_, snapshot_taken{content});
  self_->send(autoscaler_, snapshot_taken{std::move(content)});
}

demand_list observer_state::on_get_demand() const {
  return next_->demand().list(now());
}

cluster_state_actor::behavior_type
cluster_state(cluster_state_actor::stateful_pointer<observer_state> self,
              cluster_state_options options, placement_actor placement,
              autoscaler_actor autoscaler, provider_actor provider) {
  auto& s = self->state;
  s.start(self, options, std::move(placement), std::move(autoscaler),
          std::move(provider));
  return {
    [&s](const registered& x) { s.on_registered(x); },
    [&s](const nodes_changed& x) { s.on_nodes(x); },
    [&s](const costs_changed& x) { s.on_costs(x); },
    [&s](const machines_changed& x) { s.on_machines(x); },
    [&s](const demand_report& x) { s.on_demand(x); },
    [&s](const pressure& x) { s.on_pressure(x); },
    [&s](get_demand) { return s.on_get_demand(); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace

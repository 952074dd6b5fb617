// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "actors/cluster_state/observer_state.hpp"
#include "actors/policies/registry.hpp"
#include "actors/policies/state/cluster_view.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

/// While requests come, the load changes by the mere passing of time.
constexpr microseconds load_shown = 61s;

bool has_same_bundles(const node_state& x, const node_state& y) {
  return x.models == y.models && x.kept == y.kept;
}

/// Whether an entry of one map is that of the other, or as good as it.
template <class T>
void replace(std::map<std::string, std::shared_ptr<const T>>& in,
             const std::string& key, T x) {
  auto& known = in[key];
  if (!known || !(*known == x))
    known = std::make_shared<const T>(std::move(x));
}

} // namespace

void observer_state::start(
  cluster_state_actor::stateful_pointer<observer_state> self,
  cluster_state_options options, placement_actor placement,
  autoscaler_actor autoscaler) {
  self_ = self;
  options_ = options;
  placement_ = std::move(placement);
  autoscaler_ = std::move(autoscaler);
  set_common_handlers(self);
  begun_ = now();
  demand_.emplace(options_.demand_period, begun_);
  now_there_.epoch = options_.epoch;
  self->send(placement_, observe_nodes{cluster_state_actor{self}});
}

timestamp observer_state::now() const {
  return self_->clock().now();
}

void observer_state::on_registered(const registered& x) {
  intent_ = x;
  has_intent_ = true;
  models_due_ = true;
  alarm_.set(self_, now()); // whoever said so waits for it
}

void observer_state::on_nodes(const nodes_changed& x) {
  auto& nodes = now_there_.nodes;
  for (auto& [name, is] : x.nodes) {
    auto was = nodes.find(name);
    auto known = was != nodes.end();
    if (known)
      for (auto& r : was->second->replicas)
        groups_due_.insert(r.what.model);
    models_due_ |= known != (is != nullptr)
                   || (known && !has_same_bundles(*was->second, *is));
    if (!is) {
      nodes.erase(name);
      continue;
    }
    for (auto& r : is->replicas)
      groups_due_.insert(r.what.model);
    // Without a disk that has it, the version that is meant is one that serves.
    if (!is->kept.empty())
      models_due_ = true;
    nodes[name] = is;
  }
  std::set<std::string> gateways;
  for (auto& [name, node] : nodes)
    if (node->node.has_role("gateway"))
      gateways.insert(name);
  demand_->expect(gateways, now());
  publish_soon();
}

void observer_state::on_demand(const demand_report& x) {
  if (!demand_->add(x, now()))
    log_event(log_level::warning, "cluster_state", "report_ignored",
              {{"node", x.node}, {"sequence", x.sequence}});
  for (auto& m : x.models)
    loads_due_.insert(m.model);
  publish_soon();
}

/// What nothing serves yet is looked at without delay.
void observer_state::on_pressure(const pressure& x) {
  if (!has_intent_ || !now_there_.models.contains(x.model))
    return;
  pressed_[x.model] = now();
  loads_due_.insert(x.model);
  alarm_.set(self_, now());
}

void observer_state::publish_soon() {
  alarm_.set(self_, published_ + options_.pause);
}

void observer_state::on_tick() {
  if (alarm_.rings(now()))
    publish();
}

void observer_state::renew_scopes() {
  std::map<std::string, scope_state> all;
  for (auto& x : intent_.models) {
    auto scope = scope_of(x);
    auto& y = all[scope];
    y.settings = settings_of_scope(scope, intent_.scopes, x);
    y.models.push_back(x.model);
  }
  auto& scopes = now_there_.scopes;
  std::erase_if(scopes, [&](auto& x) { return !all.contains(x.first); });
  for (auto& [name, x] : all) {
    std::sort(x.models.begin(), x.models.end());
    replace(scopes, name, std::move(x));
  }
}

void observer_state::renew_models() {
  renew_scopes();
  cluster_view view;
  for (auto& [name, node] : now_there_.nodes)
    view.nodes.emplace(name, *node);
  std::set<std::string> there;
  for (auto& x : intent_.models) {
    there.insert(x.model);
    model_state y{x, scope_of(x), resolve_version(view, x), {}};
    if (auto* bundle = bundle_of(view, x.model, y.version))
      y.bundle = *bundle;
    auto& policy = now_there_.scopes.at(y.scope)->settings.policy;
    y.elastic = !is_fixed_policy(policy) && x.replicas > 0;
    replace(now_there_.models, x.model, std::move(y));
  }
  std::erase_if(now_there_.models,
                [&](auto& x) { return !there.contains(x.first); });
  std::erase_if(now_there_.loads,
                [&](auto& x) { return !there.contains(x.first); });
  loads_due_.insert(there.begin(), there.end());
}

/// Counts the replicas of models of which one has changed.
void observer_state::renew_groups() {
  if (groups_due_.empty())
    return;
  for (auto& model : groups_due_)
    groups_.erase(model);
  for (auto& [name, node] : now_there_.nodes)
    for (auto& r : node->replicas) {
      if (node->draining || !is_there(r) || !groups_due_.contains(r.what.model))
        continue;
      auto& groups = groups_[r.what.model];
      auto g = std::find_if(groups.begin(), groups.end(), [&](auto& y) {
        return y.group.id == r.what.group.id && y.layers == r.what.layers
               && y.version == r.what.version;
      });
      if (g == groups.end())
        g = groups.insert(g, {r.what.group, r.what.layers, r.what.version});
      ++(r.state == replica_condition::ready ? g->ready : g->starting);
    }
  loads_due_.merge(groups_due_);
  groups_due_.clear();
}

void observer_state::renew_loads() {
  auto time = now();
  for (auto& [model, x] : now_there_.loads)
    if (x->last_arrival >= 0us && time < begun_ + x->last_arrival + load_shown)
      loads_due_.insert(model);
  for (auto& [model, since] : pressed_)
    loads_due_.insert(model);
  std::erase_if(pressed_, [&](auto& x) {
    return time - x.second > 2 * options_.demand_period;
  });
  for (auto& model : loads_due_) {
    if (!now_there_.models.contains(model))
      continue;
    auto x = demand_->load_of(model, time);
    x.pressure = pressed_.contains(model);
    if (auto i = groups_.find(model); i != groups_.end())
      x.groups = i->second;
    replace(now_there_.loads, model, std::move(x));
  }
  loads_due_.clear();
}

/// While reports are missing the last plan stays; see count_policy.
void observer_state::check_gateways() {
  if (options_.demand_period == 0us)
    return;
  std::set<std::string> overdue;
  for (auto& node : demand_->overdue(now()))
    overdue.insert(node);
  for (auto& node : overdue)
    if (!stale_.contains(node))
      log_event(log_level::warning, "cluster_state", "demand_stale",
                {{"gateway", node}});
  stale_ = std::move(overdue);
}

void observer_state::publish() {
  if (!has_intent_)
    return;
  if (std::exchange(models_due_, false))
    renew_models();
  renew_groups();
  renew_loads();
  check_gateways();
  published_ = now();
  ++now_there_.number;
  now_there_.at = to_us(published_ - begun_);
  now_there_.covered = demand_->covered(published_);
  now_there_.counted = to_us(demand_->counted(published_) - begun_);
  auto content = std::make_shared<const cluster_snapshot>(now_there_);
  self_->send(placement_, snapshot_taken{content});
  self_->send(autoscaler_, snapshot_taken{std::move(content)});
}

demand_list observer_state::on_get_demand() const {
  return demand_->list(now());
}

cluster_state_actor::behavior_type
cluster_state(cluster_state_actor::stateful_pointer<observer_state> self,
              cluster_state_options options, placement_actor placement,
              autoscaler_actor autoscaler) {
  auto& s = self->state;
  s.start(self, options, std::move(placement), std::move(autoscaler));
  return {
    [&s](const registered& x) { s.on_registered(x); },
    [&s](const nodes_changed& x) { s.on_nodes(x); },
    [&s](const demand_report& x) { s.on_demand(x); },
    [&s](const pressure& x) { s.on_pressure(x); },
    [&s](get_demand) { return s.on_get_demand(); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace

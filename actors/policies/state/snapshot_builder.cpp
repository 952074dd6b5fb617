// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/state/snapshot_builder.hpp"

#include <algorithm>

#include "actors/policies/state/scopes.hpp"

namespace millrace {

namespace {

/// The load changes by the passing of time for this long after a request.
constexpr microseconds load_shown = 61s;

/// Replaces an entry of a map unless the old entry is equal.
template <class T>
void replace(std::map<std::string, std::shared_ptr<const T>>& in,
             const std::string& key, T x) {
  auto& known = in[key];
  if (!known || !(*known == x))
    known = std::make_shared<const T>(std::move(x));
}

/// Adds the models of a node's bundles and replicas.
void add_models(const node_state& x, std::set<std::string>& to) {
  for (auto* some : {&x.models, &x.kept})
    for (auto& m : *some)
      to.insert(m.model);
  for (auto& r : x.replicas)
    to.insert(r.what.model);
}

void add_replicas(const node_state& x, std::set<std::string>& to) {
  for (auto& r : x.replicas)
    to.insert(r.what.model);
}

} // namespace

snapshot_builder::snapshot_builder(uint64_t epoch, microseconds period,
                                   timestamp begun)
  : begun_(begun),
    period_(period),
    demand_(period, begun) {
  next_.epoch = epoch;
}

void snapshot_builder::set_machines(
  const std::map<std::string, std::shared_ptr<const pool_state>>& pools,
  const std::map<std::string, std::shared_ptr<const machine_state>>& machines) {
  for (auto& [name, x] : pools)
    next_.pools[name] = x;
  for (auto& [name, x] : machines)
    if (x)
      next_.machines[name] = x;
    else
      next_.machines.erase(name);
}

void snapshot_builder::set_intent(registered intent) {
  intent_ = std::move(intent);
  has_intent_ = scopes_due_ = true;
  of_intent_.clear();
  for (size_t i = 0; i < intent_.models.size(); ++i) {
    of_intent_[intent_.models[i].model] = i;
    models_due_.insert(intent_.models[i].model);
  }
}

/// Marks the models that a change of a node affects.
void snapshot_builder::note_node(const std::string& name, const node_state* was,
                                 const node_state* is) {
  std::set<std::string> before, after;
  if (was != nullptr) {
    add_models(*was, before);
    add_replicas(*was, groups_due_);
  }
  if (is != nullptr) {
    add_models(*is, after);
    add_replicas(*is, groups_due_);
  }
  for (auto& model : before)
    if (!after.contains(model))
      holders_[model].erase(name);
  for (auto& model : after)
    if (!before.contains(model))
      holders_[model].insert(name);
  auto same = was != nullptr && is != nullptr && was->models == is->models
              && was->kept == is->kept;
  if (!same) {
    models_due_.merge(before);
    models_due_.merge(after);
  } else if (!is->kept.empty()) {
    // For bundles in caches only, the serving version is the wanted version.
    add_replicas(*was, models_due_);
    add_replicas(*is, models_due_);
  }
}

void snapshot_builder::set_nodes(
  const std::map<std::string, std::shared_ptr<const node_state>>& xs,
  timestamp now) {
  auto& nodes = next_.nodes;
  for (auto& [name, is] : xs) {
    auto was = nodes.find(name);
    note_node(name, was == nodes.end() ? nullptr : was->second.get(), is.get());
    if (is)
      nodes[name] = is;
    else
      nodes.erase(name);
  }
  std::set<std::string> gateways;
  for (auto& [name, node] : nodes)
    if (node->node.has_role("gateway"))
      gateways.insert(name);
  demand_.expect(gateways, now);
}

bool snapshot_builder::add(const demand_report& report, timestamp now) {
  for (auto& m : report.models)
    loads_due_.insert(m.model);
  return demand_.add(report, now);
}

bool snapshot_builder::add(const pressure& report, timestamp now) {
  if (!has_intent_ || !of_intent_.contains(report.model))
    return false;
  pressed_[report.model] = now;
  loads_due_.insert(report.model);
  return true;
}

std::string snapshot_builder::owner_of(const model_settings& settings) const {
  return intent_.pins.contains(settings.model) ? pin_scope(settings.model)
                                               : scope_of(settings);
}

void snapshot_builder::renew_scopes() {
  std::map<std::string, scope_state> all;
  for (auto& x : intent_.models) {
    auto scope = owner_of(x);
    auto& y = all[scope];
    auto pin = intent_.pins.find(x.model);
    if (pin == intent_.pins.end())
      y.settings = settings_of_scope(scope, intent_.scopes, x);
    else
      y.settings = {pinning_policy, {{"groups", pin->second}}, 1s, {}, {}};
    y.models.push_back(x.model);
  }
  std::erase_if(next_.scopes, [&](auto& x) { return !all.contains(x.first); });
  for (auto& [name, x] : all) {
    std::sort(x.models.begin(), x.models.end());
    replace(next_.scopes, name, std::move(x));
  }
  auto is_gone = [&](auto& x) { return !of_intent_.contains(x.first); };
  std::erase_if(next_.models, is_gone);
  std::erase_if(next_.loads, is_gone);
}

node_list snapshot_builder::holders_of(const std::string& model) const {
  node_list out;
  if (auto i = holders_.find(model); i != holders_.end())
    for (auto& name : i->second)
      out.push_back(next_.nodes.at(name).get());
  return out;
}

void snapshot_builder::renew_models() {
  for (auto& model : models_due_) {
    auto i = of_intent_.find(model);
    if (i == of_intent_.end())
      continue;
    auto& x = intent_.models[i->second];
    auto nodes = holders_of(model);
    model_state y{x, owner_of(x), resolve_version(nodes, x), {}};
    if (auto* bundle = bundle_of(nodes, model, y.version))
      y.bundle = *bundle;
    auto& policy = next_.scopes.at(y.scope)->settings.policy;
    y.elastic = !is_fixed_policy(policy) && x.replicas > 0;
    replace(next_.models, model, std::move(y));
    loads_due_.insert(model);
  }
  models_due_.clear();
}

/// Counts the replicas of models with changed replicas.
void snapshot_builder::renew_groups() {
  for (auto& model : groups_due_) {
    std::vector<group_state> groups;
    for (auto* node : holders_of(model))
      for (auto& r : node->replicas) {
        if (node->draining || !is_there(r) || r.what.model != model)
          continue;
        auto g = std::find_if(groups.begin(), groups.end(), [&](auto& y) {
          return y.group.id == r.what.group.id && y.layers == r.what.layers
                 && y.version == r.what.version;
        });
        if (g == groups.end())
          g = groups.insert(
            g, {r.what.group, r.what.layers, r.what.version, 0, 0});
        ++(r.state == replica_condition::ready ? g->ready : g->starting);
      }
    groups_[model] = std::move(groups);
  }
  loads_due_.merge(groups_due_);
  groups_due_.clear();
}

void snapshot_builder::renew_loads(timestamp now) {
  for (auto& [model, x] : next_.loads)
    if (x->last_arrival >= 0us && now < begun_ + x->last_arrival + load_shown)
      loads_due_.insert(model);
  for (auto& [model, since] : pressed_)
    loads_due_.insert(model);
  std::erase_if(pressed_,
                [&](auto& x) { return now - x.second > 2 * period_; });
  for (auto& model : loads_due_) {
    if (!next_.models.contains(model))
      continue;
    auto x = demand_.load_of(model, now);
    x.pressure = pressed_.contains(model);
    if (auto i = groups_.find(model); i != groups_.end())
      x.groups = i->second;
    replace(next_.loads, model, std::move(x));
  }
  loads_due_.clear();
}

std::shared_ptr<const cluster_snapshot> snapshot_builder::take(timestamp now) {
  if (std::exchange(scopes_due_, false))
    renew_scopes();
  renew_models();
  renew_groups();
  renew_loads(now);
  ++next_.number;
  next_.at = to_us(now - begun_);
  next_.covered = demand_.covered(now);
  next_.counted = to_us(demand_.counted(now) - begun_);
  return std::make_shared<const cluster_snapshot>(next_);
}

} // namespace millrace

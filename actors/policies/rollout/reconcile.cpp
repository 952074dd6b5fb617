// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/rollout/planner.hpp"

#include <algorithm>
#include <tuple>

#include "actors/policies/place/filters.hpp"
#include "actors/policies/rollout/availability.hpp"
#include "actors/policies/state/configured_groups.hpp"

namespace millrace {

namespace {

std::set<std::string> completed_among(const std::vector<wanted_groups>& xs) {
  std::set<std::string> out;
  for (auto& x : xs)
    for (auto& g : x.groups)
      if (!g.extends.empty())
        out.insert(g.model);
  return out;
}

} // namespace

rollout_planner::rollout_planner(const cluster_view& view,
                                 const std::vector<wanted_groups>& wanted,
                                 const placement_policy& policy,
                                 const cluster_snapshot& snapshot,
                                 device_capacity& capacity)
  : view_(view),
    policy_(policy),
    snapshot_(snapshot),
    wanted_(wanted),
    capacity_(capacity),
    numbers_(view.numbers) {
  for (auto& [name, node] : view.nodes)
    for (auto& r : node.replicas) {
      numbers_.add(r.what.replica);
      numbers_.add(r.what.extends_replica); // its name stays reserved
      if (is_there(r) && !node.draining)
        there_[r.what.model].push_back({&name, &r});
    }
}

placement_plan rollout_planner::run() {
  std::set<std::string> models;
  for (auto& x : wanted_) {
    models.insert(x.model->settings.model);
    survey(x);
  }
  for (auto& x : groups_.layouts)
    plan_copies(x);
  for (auto& x : wanted_)
    replace_by_turns(x);
  put_missing();
  for (auto& x : wanted_)
    end_for_room(x);
  for (auto& x : groups_.layouts)
    if (x.whole != nullptr)
      plan_completion(x);
  for (auto& [model, all] : groups_.by_model)
    tidy_up(model, all);
  for (auto& x : groups_.layouts)
    adjust(x);
  for (auto& [model, replicas] : there_)
    if (!models.contains(model))
      for (auto& r : replicas)
        evict(r);
  return std::move(plan_);
}

void rollout_planner::note_stuck(const std::string& model) {
  auto is_its = [&](auto& x) { return x.model == model; };
  if (there_[model].empty()
      && std::none_of(plan_.deploy.begin(), plan_.deploy.end(), is_its))
    plan_.stuck.insert(model);
}

void rollout_planner::survey(const wanted_groups& wanted) {
  auto& model = *wanted.model;
  auto& name = model.settings.model;
  auto counts = std::any_of(wanted.groups.begin(), wanted.groups.end(),
                            [](auto& g) { return g.count > 0; });
  if (counts || model.elastic
      || (wanted.groups.empty() && model.settings.replicas > 0))
    plan_.serve.push_back(announcement_of(model));
  if (!wanted.refused.empty()) {
    note_stuck(name);
    plan_.notes[name] = wanted.refused;
  }
  if (wanted.groups.empty() || !wanted.refused.empty())
    return;
  if (model.version == 0 && (counts || model.elastic)) {
    note_stuck(name);
    plan_.notes[name] =
      why_nowhere(view_, model.settings)
      + (there_[name].empty() ? ""
                              : "; serving replicas stay, but are not"
                                " replaced after a loss");
    return;
  }
  groups_.add(wanted, there_[name]);
  for (auto i : groups_.by_model[name])
    for (auto& all = groups_.layouts[i]; all.wholes.size() > all.most_wholes();)
      evict(take_surplus(all.wholes));
}

void rollout_planner::plan_copies(layout& all) {
  auto whole = count_ready(all.wholes);
  all.all_ready = true;
  for (size_t i = 0; i < all.parts.size(); ++i) {
    auto& there = all.there[i];
    auto count = all.parts[i]->count;
    while (there.size() > count && may_go(surplus_of(there), there, count))
      evict(take_surplus(there));
    count -= std::min(count, whole);
    if (there.size() < count)
      missing_.push_back({{all.model, all.parts[i]},
                          {all.parts[i], there.size(), count - there.size()}});
    all.all_ready &= count_ready(there) >= count;
  }
}

void rollout_planner::tidy_up(const std::string& model,
                              const std::vector<size_t>& layouts) {
  auto all_ready = std::all_of(layouts.begin(), layouts.end(), [&](auto i) {
    return groups_.layouts[i].all_ready;
  });
  if (!all_ready)
    return;
  for (auto& r : std::exchange(groups_.wrong[model], {}))
    evict(r);
  for (auto i : layouts) {
    auto& all = groups_.layouts[i];
    for (size_t k = 0; k < all.there.size(); ++k)
      spread({all.model, all.parts[k]}, all.there[k]);
    use_emptier_device(all);
  }
}

void rollout_planner::spread(const replica_spec& what,
                             const std::vector<placed_replica>& xs) {
  auto crowded = policy_.spreads() && xs.size() > 1
                 && std::all_of(xs.begin(), xs.end(), [&](auto& r) {
                      return *r.node == *xs.front().node;
                    });
  if (!crowded)
    return;
  auto elsewhere = *what.group;
  elsewhere.avoid.push_back(*xs.front().node);
  place(std::array{replica_spec{what.model, &elsewhere}},
        {{&elsewhere, xs.size(), 1}});
}

void rollout_planner::use_emptier_device(const layout& all) {
  if (all.parts.size() < 2 || all.whole != nullptr)
    return;
  std::map<size_t, std::vector<size_t>> parts_on; // by device
  for (size_t k = 0; k < all.parts.size(); ++k) {
    if (all.there[k].size() != all.parts[k]->count)
      return; // a replica is starting
    for (auto& r : all.there[k])
      if (auto at = capacity_.of(r); at != capacity_.size())
        parts_on[at].push_back(k);
  }
  for (auto& [shared, parts] : parts_on)
    for (auto k = parts.rbegin(); parts.size() > 1 && k != parts.rend(); ++k) {
      auto& part = *all.parts[*k];
      auto best = shared;
      for (auto at : eligible_devices(capacity_, part))
        if (!parts_on.contains(at) && has_room(capacity_, part, at)
            && capacity_[at].load + 1 < capacity_[best].load)
          best = at;
      if (best == shared)
        continue;
      capacity_.book(best, part);
      return deploy({all.model, &part}, capacity_[best]);
    }
}

bool rollout_planner::may_go(const placed_replica& r,
                             const std::vector<placed_replica>& all,
                             uint64_t count) {
  return !is_ready(r) || count_ready(all) > count;
}

bool rollout_planner::is_beside_another_part(
  const placed_replica& replica) const {
  auto all = there_.find(replica.status->what.model);
  return all != there_.end()
         && std::any_of(all->second.begin(), all->second.end(), [&](auto& y) {
              return *y.node == *replica.node
                     && y.status->what.device == replica.status->what.device
                     && y.status->what.layers != replica.status->what.layers;
            });
}

placed_replica&
rollout_planner::surplus_of(std::vector<placed_replica>& xs) const {
  std::map<std::string, size_t> on;
  for (auto& r : xs)
    ++on[*r.node];
  auto rank = [&](const placed_replica& r) {
    return std::tuple{on[*r.node], is_beside_another_part(r),
                      number_of(r.status->what.replica)};
  };
  return *std::max_element(xs.begin(), xs.end(),
                           [&](auto& a, auto& b) { return rank(a) < rank(b); });
}

placed_replica
rollout_planner::take_surplus(std::vector<placed_replica>& xs) const {
  auto& last = surplus_of(xs);
  auto out = std::exchange(last, xs.back());
  xs.pop_back();
  return out;
}

void rollout_planner::evict(const placed_replica& r) {
  plan_.evict.push_back({*r.node, r.status->what.replica});
}

void rollout_planner::adjust(const layout& all) {
  auto& settings = all.model->settings;
  auto compare = [&](const placed_replica& r, const replica_group& wanted) {
    auto& is = r.status->what;
    if (is.tuned != wanted.tuned || is.policy != settings.policy
        || is.tenants != settings.tenants || is.group.id != wanted.id)
      plan_.adjust.push_back({*r.node, is.replica, wanted.tuned,
                              settings.policy, settings.tenants,
                              tag_of(*all.model, wanted)});
  };
  for (size_t i = 0; i < all.there.size(); ++i)
    for (auto& r : all.there[i])
      compare(r, *all.parts[i]);
  for (auto& r : all.wholes)
    compare(r, *all.whole);
}

group_tag rollout_planner::tag_of(const model_state& model,
                                  const replica_group& group) {
  return {group.id,     model.scope, group.cut,   group.stage,   group.extends,
          group.device, group.count, group.least, group.priority};
}

void rollout_planner::deploy(const replica_spec& what, const device_room& to,
                             const std::string& extends_replica) {
  auto& x = what.settings();
  auto& g = *what.group;
  auto* its = bundle_for(view_, *to.node, g.model, g.version);
  plan_.deploy.push_back(
    {numbers_.fresh(g.model, g.version), g.model, g.version, g.layers,
     to.node->node.name, to.device->id, g.share,
     std::max(g.batch_max, g.tuned.batch), g.tuned, x.trusted, x.tenants,
     x.policy, extends_replica, its == nullptr ? "" : its->content,
     its == nullptr ? 0 : bytes_of(*its, g.layers),
     extends_replica.empty() && !serves(what), tag_of(*what.model, g),
     g.units});
}

bool rollout_planner::serves(const replica_spec& what) const {
  auto has = [&](const assignment& x) {
    return x.model == what.group->model && x.layers.first <= what.layers().first
           && x.layers.last >= what.layers().last;
  };
  for (auto& [name, node] : view_.nodes)
    for (auto& r : node.replicas)
      if (has(r.what)
          && (r.state == replica_condition::ready
              || (r.state == replica_condition::starting
                  && r.what.skip_warm_up)))
        return true;
  return std::any_of(plan_.deploy.begin(), plan_.deploy.end(),
                     [&](auto& x) { return x.skip_warm_up && has(x); });
}

placement_plan reconcile(const cluster_view& view,
                         const std::vector<wanted_groups>& wanted,
                         const placement_policy& policy,
                         const cluster_snapshot& snapshot) {
  capacity_keeper fresh;
  return reconcile(view, wanted, policy, snapshot, fresh);
}

placement_plan reconcile(const cluster_view& view,
                         const std::vector<wanted_groups>& wanted,
                         const placement_policy& policy,
                         const cluster_snapshot& snapshot,
                         capacity_keeper& kept) {
  auto completed = completed_among(wanted);
  if (!kept.index)
    kept.index.emplace(view, std::move(completed), snapshot.costs);
  else
    kept.index->follow(kept.changed, completed, snapshot.costs);
  kept.changed.clear();
  return rollout_planner{view, wanted, policy, snapshot, *kept.index}.run();
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "actors/policies/rollout/reconcile.hpp"

namespace millrace {

copy_count count_copies(const cluster_view& view, const wanted_groups& groups) {
  // Counts by group. A replica without a wanted group counts for the first
  // group with the same layers, and for any group of a model in one piece.
  std::map<std::string, copy_count> counts;
  auto group_for = [&](const assignment& is) -> const replica_group* {
    const replica_group* like = nullptr;
    for (auto& g : groups.groups)
      if (g.id == is.group.id && g.layers == is.layers)
        return &g;
      else if (like == nullptr && g.layers == is.layers)
        like = &g;
    auto one = std::all_of(groups.groups.begin(), groups.groups.end(),
                           [](auto& g) { return g.stage == 0; });
    return like != nullptr || groups.groups.empty() || !one
             ? like
             : &groups.groups.front();
  };
  copy_count out;
  auto& settings = groups.model->settings;
  if (groups.groups.empty())
    out.wanted =
      groups.model->elastic ? settings.scaling.min : settings.replicas;
  for (auto& [name, node] : view.nodes)
    for (auto& r : node.replicas) {
      if (r.what.model != settings.model || !is_there(r))
        continue;
      auto ready = r.state == replica_condition::ready;
      if (groups.groups.empty()) // undecided
        ++(ready ? out.ready : out.starting);
      else if (auto* g = group_for(r.what))
        ++(ready ? counts[g->id].ready : counts[g->id].starting);
    }
  std::map<std::string, copy_count> by_cut;
  for (auto& g : groups.groups) {
    auto& n = counts[g.id];
    auto fresh = !by_cut.contains(g.cut);
    auto& cut = by_cut[g.cut];
    cut.ready = fresh ? n.ready : std::min(cut.ready, n.ready);
    cut.starting = std::max(cut.starting, n.starting);
    auto& wanted = by_cut[g.extends.empty() ? g.cut : g.extends].wanted;
    wanted = std::max(wanted, g.count);
  }
  for (auto& [name, n] : by_cut) {
    out.wanted += n.wanted;
    out.ready += n.ready;
    out.starting += n.starting;
  }
  return out;
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/rollout/group_map.hpp"

#include <algorithm>

#include "actors/policies/place/filters.hpp"

namespace millrace {

void group_map::add(const wanted_groups& wanted,
                    const std::vector<placed_replica>& there) {
  lay_out(wanted);
  for (auto& r : there)
    sort_in(r, *wanted.model);
}

/// Makes a layout for each cut, in the order of the groups.
void group_map::lay_out(const wanted_groups& wanted) {
  auto& mine = by_model[wanted.model->settings.model];
  auto of_cut = [&](const std::string& cut) {
    return std::find_if(mine.begin(), mine.end(), [&](auto i) {
      return layouts[i].parts.front()->cut == cut;
    });
  };
  for (auto& g : wanted.groups) {
    if (!g.extends.empty())
      continue;
    auto i = of_cut(g.cut);
    if (i == mine.end()) {
      i = mine.insert(mine.end(), layouts.size());
      layouts.push_back({wanted.model.get(), {}, {}});
    }
    layouts[*i].parts.push_back(&g);
    layouts[*i].there.emplace_back();
  }
  for (auto& g : wanted.groups)
    if (auto i = of_cut(g.extends); !g.extends.empty() && i != mine.end())
      layouts[*i].whole = &g;
}

template <class F>
bool group_map::any_group(const std::string& model, F f) {
  for (auto i : by_model[model]) {
    auto& x = layouts[i];
    for (size_t k = 0; k < x.parts.size(); ++k)
      if (f(*x.parts[k], x.there[k]))
        return true;
    if (x.whole != nullptr && f(*x.whole, x.wholes))
      return true;
  }
  return false;
}

void group_map::sort_in(const placed_replica& r, const model_state& model) {
  auto& its = r.status->what.group.id;
  auto& name = model.settings.model;
  auto known = any_group(name, [&](auto& g, auto&) { return g.id == its; });
  auto taken = any_group(name, [&](auto& g, auto& list) {
    auto belongs = (!known || g.id == its) && is_as_wanted(r, g, model);
    if (belongs)
      list.push_back(r);
    return belongs;
  });
  if (!taken)
    wrong[name].push_back(r);
}

bool group_map::is_as_wanted(const placed_replica& r, const replica_group& g,
                             const model_state& model) const {
  auto& is = r.status->what;
  auto& x = model.settings;
  auto place = capacity_.of(r);
  return is.layers == g.layers && is.version == g.version && is.share == g.share
         && is.units == g.units && is.trusted == x.trusted
         && is.batch_max >= g.tuned.batch
         && (g.batch_max == 0 || is.batch_max == g.batch_max)
         && (place == capacity_.size()
             || is_selected(g, *r.node, *capacity_[place].device));
}

} // namespace millrace

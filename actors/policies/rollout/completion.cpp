// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/rollout/planner.hpp"

#include <algorithm>
#include <numeric>

#include "actors/policies/place/filters.hpp"

namespace millrace {

void rollout_planner::plan_completion(layout& all) {
  auto waiting = complete_parts(all);
  auto ready = count_ready(all.wholes);
  if (all.copies() == 0 || ready < all.copies())
    return;
  auto done = waiting.empty();
  auto broken = all.is_broken();
  for (auto& replicas : all.there)
    for (auto& r : replicas)
      if (done || (broken && !waiting.contains(r.status)))
        evict(r);
  all.there.clear(); // parts are no longer placed
  if (done)
    spread({all.model, all.whole}, all.wholes);
}

std::set<const replica_status*>
rollout_planner::complete_parts(const layout& all) {
  std::set<const replica_status*> waiting;
  std::multiset<size_t> loading; // devices
  // Parts on a device that has a whole replica.
  std::vector<placed_replica> others;
  auto open = false; // a device will have room once its part is ready
  replica_spec whole{all.model, all.whole};
  for (auto i : by_layers(all))
    for (auto& r : all.there[i]) {
      auto at = capacity_.of(r);
      if (auto* its = all.completing(r)) {
        if (!is_ready(*its))
          waiting.insert(r.status);
      } else if (loading.contains(at) || all.whole_on(capacity_, at)) {
        others.push_back(r);
      } else if (all.wholes.size() + loading.size() >= all.most_wholes()) {
        continue; // returned with its node: no further whole replica is needed
      } else if (!is_ready(r)) {
        open = true;
        waiting.insert(r.status);
      } else if (load_whole(whole, r)) {
        loading.insert(at);
        waiting.insert(r.status);
      }
    }
  for (auto& r : others) {
    auto at = capacity_.of(r);
    auto few = all.wholes.size() + loading.size() < all.copies();
    if (few && !open && is_ready(r) && load_whole(whole, r))
      loading.insert(at);
    auto* its = all.whole_on(capacity_, at);
    if (loading.contains(at) || !is_ready(*its) || (few && !is_ready(r)))
      waiting.insert(r.status);
  }
  return waiting;
}

std::vector<size_t> rollout_planner::by_layers(const layout& all) {
  std::vector<size_t> out(all.parts.size());
  std::iota(out.begin(), out.end(), size_t{0});
  std::sort(out.begin(), out.end(), [&](auto a, auto b) {
    return all.parts[a]->layers < all.parts[b]->layers;
  });
  return out;
}

bool rollout_planner::load_whole(const replica_spec& whole,
                                 const placed_replica& part) {
  auto at = capacity_.of(part);
  if (at == capacity_.size())
    return false;
  auto& p = capacity_[at];
  auto more =
    capacity_.of(p, *whole.group).beside(capacity_.of(*p.node, *part.status));
  if (!p.has_room(p.held, more.bytes) || !p.has_units(p.units, more.units)) {
    plan_.notes[whole.group->model] =
      "no room for whole replicas where its parts are";
    return false;
  }
  auto& g = *whole.group;
  if (!capacity_.can_get(p, g)) {
    plan_.notes[g.model] = refuse(capacity_, {&g, 0, 1}, 0, 1).why;
    return false;
  }
  capacity_.extend(at, g, more);
  deploy(whole, p, part.status->what.replica);
  return true;
}

} // namespace millrace

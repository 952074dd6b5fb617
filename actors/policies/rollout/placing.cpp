// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/rollout/planner.hpp"

#include <algorithm>

#include "actors/policies/place/filters.hpp"

namespace millrace {

bool rollout_planner::can_get(const replica_spec& what, const device_room& on,
                              uint64_t freed) const {
  return capacity_.can_get(*on.node, what.group->model, what.version(),
                           what.layers(), freed);
}

footprint rollout_planner::footprint_of(const replica_spec& what,
                                        const device_room& on) const {
  return capacity_.of(*on.node, what.group->model, what.version(),
                      what.layers());
}

std::vector<placement_map::refusal>
rollout_planner::place(std::span<const replica_spec> what,
                       const std::vector<placement_request>& wanted) {
  auto map = policy_.place(snapshot_, wanted, capacity_);
  if (auto fault = find_fault(map, wanted, capacity_)) {
    map = {};
    for (size_t i = 0; i < wanted.size(); ++i)
      map.refused.push_back({i, wanted[i].missing, "map",
                             "the placement policy failed: " + *fault});
  }
  refuse_broken_cuts(map, wanted);
  for (auto& x : map.chosen) {
    capacity_.book(x.device, *wanted[x.request].group);
    deploy(what[x.request], capacity_[x.device]);
  }
  return std::move(map.refused);
}

void rollout_planner::refuse_broken_cuts(
  placement_map& map, std::span<const placement_request> wanted) {
  using key = std::pair<std::string, std::string>; // model, cut
  auto key_of = [&](size_t i) {
    return key{wanted[i].group->model, wanted[i].group->cut};
  };
  std::vector<uint64_t> placed(wanted.size());
  for (auto& x : map.chosen)
    ++placed[x.request];
  std::map<key, placement_map::refusal> broken;
  for (auto& x : map.refused)
    if (wanted[x.request].there + placed[x.request] == 0)
      broken.emplace(key_of(x.request), x);
  if (broken.empty())
    return;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (auto x = broken.find(key_of(i)); x != broken.end() && placed[i] > 0)
      map.refused.push_back({i, placed[i], x->second.filter, x->second.why});
  std::erase_if(map.chosen,
                [&](auto& x) { return broken.contains(key_of(x.request)); });
}

void rollout_planner::put_missing() {
  std::vector<placement_request> wanted;
  std::vector<replica_spec> what;
  for (auto& x : missing_)
    if (x.request.missing > 0) {
      what.push_back(x.what);
      wanted.push_back(x.request);
    }
  if (wanted.empty())
    return;
  for (auto& refused : place(what, wanted))
    wait_or_make_way(what[refused.request], refused);
}

void rollout_planner::wait_or_make_way(const replica_spec& what,
                                       const placement_map::refusal& refused) {
  auto& model = what.group->model;
  plan_.notes[model] = refused.why;
  uint64_t waits = 0; // replicas with reserved room
  auto open = eligible_devices(capacity_, *what.group);
  while (waits < refused.count
         && (wait_for_leaving(what, open) || make_way(what, open)))
    ++waits;
  if (waits < refused.count)
    no_room_.insert(model);
  if (waits == 0)
    note_stuck(model);
}

bool rollout_planner::will_have_room(
  const replica_spec& what, const device_room& p,
  const std::vector<placed_replica>& gone) const {
  uint64_t freed = 0;
  for (auto& r : gone)
    freed += p.device->id == r.status->what.device
               ? capacity_.of(*p.node, *r.status).bytes
               : 0;
  return p.has_room(p.held - p.leaving - freed, footprint_of(what, p).bytes)
         && can_get(what, p,
                    capacity_.leaving(*p.node)
                      + capacity_.freed_by(*p.node, gone));
}

void rollout_planner::wait_for_room(const replica_spec& what, device_room& p,
                                    uint64_t freed) {
  auto x = footprint_of(what, p);
  p.take(x);
  p.leaving -= std::min(p.leaving, x.bytes);
  capacity_.wait(*p.node, what.group->model, what.version(), what.layers(),
                 freed);
}

bool rollout_planner::wait_for_leaving(const replica_spec& what,
                                       const std::vector<size_t>& among) {
  auto best = capacity_.size();
  for (auto at : among)
    if (will_have_room(what, capacity_[at])
        && (best == capacity_.size()
            || capacity_[at].load < capacity_[best].load))
      best = at;
  if (best == capacity_.size())
    return false;
  wait_for_room(what, capacity_[best]);
  ++capacity_[best].load;
  return true;
}

bool rollout_planner::make_way(const replica_spec& what,
                               const std::vector<size_t>& among) {
  for (auto at : among) {
    auto& p = capacity_[at];
    std::vector<placed_replica> gone;
    for (auto& r : spare_on(*p.node)) {
      if (will_have_room(what, p, gone))
        break;
      gone.push_back(r);
    }
    if (!will_have_room(what, p, gone))
      continue;
    // The last eviction may make earlier ones unnecessary.
    for (auto i = gone.begin(); i != gone.end();) {
      auto r = *i;
      i = gone.erase(i);
      if (!will_have_room(what, p, gone))
        i = gone.insert(i, r) + 1;
    }
    for (auto& r : gone) {
      if (auto its = capacity_.of(r); its != capacity_.size())
        capacity_[its].leaving += capacity_.of(*p.node, *r.status).bytes;
      let_go(r);
    }
    wait_for_room(what, p, capacity_.freed_by(*p.node, gone));
    return true;
  }
  return false;
}

std::vector<placed_replica>
rollout_planner::spare_on(const node_state& node) const {
  std::vector<placed_replica> out;
  for (auto& x : groups_.layouts)
    for (auto& r : x.spare())
      if (*r.node == node.node.name)
        out.push_back(r);
  return out;
}

void rollout_planner::let_go(const placed_replica& r) {
  evict(r);
  for (auto& x : groups_.layouts)
    std::erase_if(x.wholes, [&](auto& y) { return y.status == r.status; });
}

} // namespace millrace

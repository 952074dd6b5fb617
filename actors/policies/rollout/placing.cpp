// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/rollout/planner.hpp"

#include <algorithm>

#include "actors/policies/place/filters.hpp"

namespace millrace {

std::vector<placement_map::refusal>
rollout_planner::place(std::span<const replica_spec> what,
                       const std::vector<placement_request>& wanted) {
  placement_map map;
  {
    capacity_reservation trial{capacity_};
    map = policy_.place(snapshot_, wanted, trial);
  }
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
  footprint freed;
  for (auto& r : gone)
    if (p.device->id == r.status->what.device) {
      auto its = capacity_.of(*p.node, *r.status);
      freed.bytes += its.bytes;
      freed.units += its.units;
    }
  auto takes = capacity_.of(p, *what.group);
  return p.has_room(p.held - p.leaving - freed.bytes, takes.bytes)
         && p.has_units(p.units - p.units_leaving - freed.units, takes.units)
         && capacity_.can_get(p, *what.group,
                              capacity_.leaving(p)
                                + capacity_.freed_by(*p.node, gone));
}

void rollout_planner::wait_for_room(const replica_spec& what, size_t at,
                                    uint64_t freed, bool counts_as_load) {
  capacity_.wait(at, *what.group, freed, counts_as_load);
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
  wait_for_room(what, best, 0, true);
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
        capacity_.leave(its, capacity_.of(*p.node, *r.status));
      let_go(r);
    }
    wait_for_room(what, at, capacity_.freed_by(*p.node, gone), false);
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

// SPDX-License-Identifier: Apache-2.0
#include "actors/router/stage_map.hpp"

#include <algorithm>
#include <vector>

namespace millrace {

dispatcher& stage_map::at(uint64_t layer) {
  auto& out = by_first_[layer];
  if (!out)
    out = weighted_
            ? make_weighted_dispatcher()
            : make_dispatcher(how_, random_.fork(std::to_string(layer)));
  return *out;
}

void stage_map::add(replica_id replica, const layer_range& has,
                    uint64_t layers) {
  layers_ = layers;
  auto& r = replicas_[replica];
  r.has = has;
  r.is = condition::open;
  r.among = &at(has.first);
  r.among->set_weight(replica, r.weight);
  find_ways();
}

void stage_map::close(replica_id replica) {
  replicas_.at(replica).is = condition::closed;
  find_ways();
}

void stage_map::release(replica_id replica) {
  replicas_.at(replica).is = condition::released;
  find_ways();
}

void stage_map::remove(replica_id replica) {
  auto i = replicas_.find(replica);
  i->second.among->remove(replica);
  replicas_.erase(i);
  std::erase_if(severed_, [replica](auto& pair) {
    return pair.first == replica || pair.second == replica;
  });
  find_ways();
}

void stage_map::sever(replica_id from, replica_id to) {
  severed_.emplace(from, to);
  find_ways();
}

void stage_map::join(replica_id from, replica_id to) {
  if (severed_.erase({from, to}) > 0)
    find_ways();
}

void stage_map::set_credit(replica_id replica, uint32_t credit) {
  auto& r = replicas_.at(replica);
  r.credit = credit;
  r.among->set_credit(replica, r.leads ? credit : 0);
}

void stage_map::adopt(dispatch_policy how) {
  how_ = how;
  renew_dispatchers();
}

void stage_map::set_weight(replica_id replica, double weight) {
  auto& r = replicas_.at(replica);
  r.weight = weight;
  r.among->set_weight(replica, weight);
  auto unlike =
    std::any_of(replicas_.begin(), replicas_.end(),
                [&](auto& entry) { return entry.second.weight != weight; });
  if (std::exchange(weighted_, unlike) != unlike)
    renew_dispatchers();
}

void stage_map::renew_dispatchers() {
  by_first_.clear();
  for (auto& [id, r] : replicas_) {
    r.among = &at(r.has.first);
    r.among->set_weight(id, r.weight);
    r.among->set_credit(id, r.leads ? r.credit : 0);
  }
}

std::optional<stage_map::replica_id> stage_map::next(uint64_t layer,
                                                     replica_id from) const {
  auto i = by_first_.find(layer);
  if (i == by_first_.end())
    return std::nullopt;
  auto out = i->second->next();
  if (out && reaches(from, *out))
    return out;
  auto late = layer != 0 && closed_ > 0 && !is_open(layer, from);
  if (!late && !out)
    return std::nullopt;
  return next_of(layer, from, [](auto) { return true; });
}

bool stage_map::leads_on(uint64_t layer, replica_id from) const {
  return any_leads(layer, from, &replica::leads_late);
}

bool stage_map::is_open(uint64_t layer, replica_id from) const {
  return any_leads(layer, from, &replica::leads);
}

bool stage_map::any_leads(uint64_t layer, replica_id from,
                          bool replica::*how) const {
  return layer == layers_
         || std::any_of(replicas_.begin(), replicas_.end(), [&](auto& entry) {
              auto& [id, r] = entry;
              return r.has.first == layer && r.*how && reaches(from, id);
            });
}

/// Finds the replicas with a path to the last layer, in descending order of
/// their last layer: a path leads to higher layers only.
void stage_map::find_ways() {
  std::vector<std::pair<uint64_t, replica_id>> by_end;
  for (auto& [id, r] : replicas_)
    by_end.emplace_back(r.has.last, id);
  std::sort(by_end.rbegin(), by_end.rend());
  std::map<uint64_t, std::vector<replica_id>> open, late;
  closed_ = 0;
  for (auto& entry : by_end) {
    auto end = entry.first;
    auto id = entry.second;
    auto& r = replicas_.at(id);
    auto leads_to = [&](auto& ways) {
      auto& next = ways[end];
      return r.has.first < end
             && (end == layers_
                 || std::any_of(next.begin(), next.end(),
                                [&](auto to) { return reaches(id, to); }));
    };
    closed_ += r.is == condition::closed;
    r.leads_late = r.is != condition::released && leads_to(late);
    if (r.leads_late)
      late[r.has.first].push_back(id);
    auto leads = r.is == condition::open && leads_to(open);
    if (leads)
      open[r.has.first].push_back(id);
    if (leads == r.leads)
      continue;
    r.leads = leads;
    r.among->set_credit(id, leads ? r.credit : 0);
  }
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#include "actors/router/stage_map.hpp"

#include <algorithm>
#include <vector>

namespace millrace {

dispatcher& stage_map::at(uint64_t layer) {
  auto& out = by_first_[layer];
  if (!out)
    out = make_dispatcher(how_, random_.fork(std::to_string(layer)));
  return *out;
}

void stage_map::add(replica_id x, const layer_range& has, uint64_t layers) {
  layers_ = layers;
  auto& r = replicas_[x];
  r.has = has;
  r.is = condition::open;
  r.among = &at(has.first);
  find_ways();
}

void stage_map::close(replica_id x) {
  replicas_.at(x).is = condition::closed;
  find_ways();
}

void stage_map::release(replica_id x) {
  replicas_.at(x).is = condition::released;
  find_ways();
}

void stage_map::remove(replica_id x) {
  auto i = replicas_.find(x);
  i->second.among->remove(x);
  replicas_.erase(i);
  find_ways();
}

void stage_map::set_credit(replica_id x, uint32_t credit) {
  auto& r = replicas_.at(x);
  r.credit = credit;
  r.among->set_credit(x, r.leads ? credit : 0);
}

void stage_map::adopt(dispatch_policy how) {
  how_ = how;
  by_first_.clear();
  for (auto& [id, r] : replicas_) {
    r.among = &at(r.has.first);
    r.among->set_credit(id, r.leads ? r.credit : 0);
  }
}

std::optional<stage_map::replica_id> stage_map::next(uint64_t layer) const {
  auto i = by_first_.find(layer);
  if (i == by_first_.end())
    return std::nullopt;
  auto out = i->second->next();
  if (out || layer == 0 || closed_ == 0 || is_open(layer))
    return out;
  for (auto& [id, r] : replicas_)
    if (r.has.first == layer && r.leads_late && r.credit > 0
        && (!out || id < *out))
      out = id;
  return out;
}

bool stage_map::leads_on(uint64_t layer) const {
  return layer == layers_
         || std::any_of(replicas_.begin(), replicas_.end(), [&](auto& entry) {
              return entry.second.has.first == layer && entry.second.leads_late;
            });
}

bool stage_map::is_open(uint64_t layer) const {
  return layer == layers_
         || std::any_of(replicas_.begin(), replicas_.end(), [&](auto& entry) {
              return entry.second.has.first == layer && entry.second.leads;
            });
}

/// Who leads to the last layer: found from there on, since each part leads to
/// higher layers only.
void stage_map::find_ways() {
  std::vector<std::pair<uint64_t, replica_id>> by_end;
  for (auto& [id, r] : replicas_)
    by_end.emplace_back(r.has.last, id);
  std::sort(by_end.rbegin(), by_end.rend());
  std::map<uint64_t, bool> open{{layers_, true}}, late{{layers_, true}};
  closed_ = 0;
  for (auto& [end, id] : by_end) {
    auto& r = replicas_.at(id);
    closed_ += r.is == condition::closed;
    r.leads_late =
      r.is != condition::released && r.has.first < end && late[end];
    late[r.has.first] |= r.leads_late;
    auto leads = r.is == condition::open && r.has.first < end && open[end];
    open[r.has.first] |= leads;
    if (leads == r.leads)
      continue;
    r.leads = leads;
    r.among->set_credit(id, leads ? r.credit : 0);
  }
}

} // namespace millrace

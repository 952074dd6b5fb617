// SPDX-License-Identifier: Apache-2.0
#include "actors/placement/start_log.hpp"

#include <algorithm>

namespace millrace {

void start_log::add(const assignment& assigned, timestamp now) {
  if (entries_.size() == most)
    entries_.pop_front();
  entry fresh;
  fresh.what.how.what = assigned;
  fresh.decided = now;
  entries_.push_back(std::move(fresh));
}

bool start_log::is_under_way(const entry& started) {
  auto& how = started.what.how;
  return started.what.ready == 0us && how.state != replica_condition::failed
         && how.reason.empty();
}

void start_log::give_up(entry& started, replica_condition how,
                        const std::string& why) {
  started.what.how.state = how;
  started.what.how.reason = why;
}

/// A replica that has left the inventory before it was ready counts as evicted.
void start_log::on_inventory(const node_state& node, timestamp now) {
  for (auto& e : entries_) {
    auto& how = e.what.how;
    if (how.what.node != node.node.name)
      continue;
    auto it =
      std::find_if(node.replicas.begin(), node.replicas.end(),
                   [&](auto& y) { return y.what.replica == how.what.replica; });
    if (it == node.replicas.end()) {
      if (e.begun && is_under_way(e))
        give_up(e, replica_condition::draining, "evicted before it was ready");
      continue;
    }
    if (!e.begun)
      e.what.order = to_us(now - e.decided);
    e.begun = true;
    if (it->state == replica_condition::ready && e.what.ready == 0us)
      e.what.ready = to_us(now - e.decided);
    how = *it;
  }
}

void start_log::on_lost(const std::string& node) {
  for (auto& e : entries_)
    if (e.what.how.what.node == node && is_under_way(e))
      give_up(e, replica_condition::failed, "its node was lost");
}

std::optional<timestamp> start_log::begun(const std::string& replica) const {
  for (auto& e : entries_)
    if (e.what.how.what.replica == replica && e.what.ready == 0us)
      return e.decided;
  return std::nullopt;
}

bool start_log::has_failed(const std::string& replica) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](auto& e) {
    return e.begun && e.what.how.what.replica == replica
           && e.what.how.state == replica_condition::failed;
  });
}

std::vector<replica_start> start_log::list(timestamp now) const {
  std::vector<replica_start> out;
  out.reserve(entries_.size());
  for (auto i = entries_.rbegin(); i != entries_.rend(); ++i) {
    out.push_back(i->what);
    out.back().ago = to_us(now - i->decided);
  }
  return out;
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#include "actors/replica/replica_state.hpp"

#include <algorithm>

#include "runtime/log.hpp"

namespace millrace {

// How a replica ends: see the states in replica_state.hpp.

void replica_state::tell_to_stop(gateway_link& link, bool lost) {
  if (!link.handle)
    return;
  link.told_to_stop = true;
  self_->send(caf::actor_cast<gateway_actor>(link.handle),
              replica_draining{
                caf::actor_cast<caf::strong_actor_ptr>(self_->ctrl()), lost});
}

/// Whether the replica accepts no batches and ends once it may.
bool replica_state::is_ending() const {
  return life_ == replica_life::finishing || life_ == replica_life::lost;
}

bool replica_state::is_released() const {
  return std::all_of(gateways_.begin(), gateways_.end(), [](auto& g) {
    return !g.second.told_to_stop || g.second.released;
  });
}

void replica_state::on_router_released(const router_released& message) {
  if (auto i = gateways_.find(message.node); i != gateways_.end())
    i->second.released = true;
  end_if_idle();
}

void replica_state::stop_serving(replica_life next) {
  auto lost = next == replica_life::lost;
  for (auto& [node, gateway] : gateways_)
    if (serves(node) || (lost && gateway.told_to_stop && !gateway.released))
      tell_to_stop(gateway, lost);
  life_ = next;
  end_if_idle();
}

void replica_state::on_finish_elsewhere() {
  if (is_ending() || life_ == replica_life::local
      || life_ == replica_life::starting_local)
    return;
  report(replica_condition::draining);
  for (auto& [node, gateway] : gateways_)
    if (node != options_.node && serves(node))
      tell_to_stop(gateway, false);
  life_ = life_ == replica_life::ready ? replica_life::local
                                       : replica_life::starting_local;
}

void replica_state::on_finish() {
  if (is_ending())
    return;
  report(replica_condition::draining);
  stop_serving(replica_life::finishing);
}

void replica_state::on_lost(const stage_lost& message) {
  if (life_ == replica_life::lost)
    return;
  excused_ = message.excused;
  log_event(excused_ ? log_level::warning : log_level::error, "replica", "lost",
            {{"replica", options_.what.replica}, {"error", message.text}});
  report(replica_condition::failed, message.text);
  stop_serving(replica_life::lost);
}

void replica_state::end_if_idle() {
  if (is_ending() && running_.empty() && is_released())
    self_->quit();
}

} // namespace millrace

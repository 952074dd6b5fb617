// SPDX-License-Identifier: Apache-2.0

/// \file
/// How a REPLICA that has a part of a model hands on what it has computed.

#include <algorithm>

#include "actors/replica/replica_state.hpp"

namespace millrace {

bool replica_state::is_last_stage() const {
  return layers_.last == content_->info.layers.size();
}

/// Whether a batch from the stage before was given up before it came, or its
/// router has lost sight of this replica meanwhile, and was promised room anew.
bool replica_state::is_void(uint64_t id, const passage& way) const {
  if (way.visits.empty())
    return false;
  auto promised =
    std::any_of(gateways_.begin(), gateways_.end(), [&](auto& entry) {
      return entry.second.handle && entry.second.promise == way.promise;
    });
  return !promised
         || std::count(given_up_.begin(), given_up_.end(),
                       std::pair{way.router->id(), id})
              != 0;
}

/// A batch has come that goes through several stages. Its router learns from
/// here that it has left the stage before.
void replica_state::begin_journey(batch& x, passage&& way, deadline due) {
  if (!way.visits.empty())
    self_->send(caf::actor_cast<router_actor>(x.from), batch_accepted{x.id});
  if (auto before = self_->current_sender(); before && way.receipt)
    self_->send(caf::actor_cast<replica_actor>(before), batch_accepted{x.id});
  x.through = std::make_unique<journey>();
  x.through->way = std::move(way);
  x.through->due = due;
}

/// The sender's batch of that number; the end when it is not here.
replica_state::batch_map::iterator replica_state::find(uint64_t id) {
  auto from = self_->current_sender();
  return std::find_if(running_.begin(), running_.end(), [&](auto& entry) {
    auto& x = entry.second;
    return x.id == id && from && x.from->id() == from->id();
  });
}

void replica_state::end(batch_map::iterator x) {
  running_.erase(x);
  end_if_idle();
}

/// It has run here, and goes on once it is known where to.
void replica_state::hold(batch_map::iterator x, executed& result) {
  auto& y = *x->second.through;
  y.held = std::move(result);
  y.since = self_->clock().now();
  if (y.way.next)
    return go_on(x);
  if (options_.what.policy.held > 0) {
    batch_extent all;
    for (auto& outputs : y.held->outputs)
      all.add({bytes_of(outputs), outputs.size()});
    self_->send(caf::actor_cast<router_actor>(x->second.from),
                batch_ran{x->second.id, all.bytes});
  }
}

void replica_state::go_on(batch_map::iterator x) {
  auto& y = *x->second.through;
  auto to = std::move(*y.way.next);
  y.way.next.reset();
  if (!to.handle) {
    self_->send(caf::actor_cast<router_actor>(x->second.from),
                next_stage_unreachable{to.replica});
    return;
  }
  if (auto share = refuse_too_large(to.handle, y.way.rows.size(), *y.held);
      share > 0)
    return answer(x, *y.held, share);
  if (next_.emplace(to.handle->id(), to).second)
    self_->monitor(caf::actor_cast<caf::actor>(to.handle));
  y.way.visits.push_back({options_.what.replica, y.held->queue, y.held->run,
                          to_us(self_->clock().now() - y.since),
                          options_.what.layers, y.held->interference});
  y.way.promise = to.promise;
  y.way.receipt = wants_receipt(x->second.id, to.handle->id());
  run_batch next;
  next.id = x->second.id;
  next.trace = x->second.trace;
  for (auto& outputs : y.held->outputs)
    next.items.push_back({y.due, std::move(outputs)});
  next.through = std::move(y.way);
  self_->send(caf::actor_cast<replica_actor>(to.handle), std::move(next));
  end(x);
}

/// How long it takes to get to another is looked at once a second.
bool replica_state::wants_receipt(uint64_t id, caf::actor_id to) {
  constexpr auto period = 1s;
  auto now = self_->clock().now();
  if (on_the_way_.at != timestamp{} && now - on_the_way_.at < period)
    return false;
  on_the_way_ = {now, id, to};
  return true;
}

void replica_state::on_batch_accepted(const batch_accepted& x) {
  auto from = self_->current_sender();
  if (from && from->id() == on_the_way_.to && x.id == on_the_way_.id)
    sends_.add(self_->clock().now() - on_the_way_.at);
}

void replica_state::on_forward_batch(forward_batch& x) {
  auto i = find(x.id);
  if (i == running_.end() || !i->second.through) {
    if (auto from = self_->current_sender())
      self_->send(caf::actor_cast<router_actor>(from), batch_not_found{x.id});
    return;
  }
  auto& y = *i->second.through;
  y.way.next = std::move(x.to);
  if (y.held)
    go_on(i);
}

void replica_state::on_drop(const drop_batch& x) {
  auto i = find(x.id);
  auto from = self_->current_sender();
  if (i == running_.end() && from) {
    constexpr size_t most = 256; // later than so many others none comes
    given_up_.push_back({from->id(), x.id});
    if (given_up_.size() > most)
      given_up_.pop_front();
    self_->send(caf::actor_cast<router_actor>(from), batch_not_found{x.id});
  }
  if (i == running_.end())
    return;
  if (i->second.through && i->second.through->held)
    cancel(i);
  else
    drop(i);
}

/// Nobody waits for it; but for its device, that is.
void replica_state::drop(batch_map::iterator x) {
  x->second.dropped = true;
  self_->send(options_.executor, abandon{x->first});
}

void replica_state::cancel(batch_map::iterator x) {
  executed nothing;
  nothing.id = x->first;
  nothing.status = ec::cancelled;
  answer(x, nothing);
}

/// What was sent there may not have arrived; what was to go there stays here
/// until its router has another word on it.
void replica_state::on_next_down(const std::string& replica) {
  for (auto& [id, x] : running_)
    if (x.through && x.through->way.next
        && x.through->way.next->replica == replica)
      x.through->way.next.reset();
  for (auto& [id, router] : routers_)
    self_->send(caf::actor_cast<router_actor>(router),
                next_stage_unreachable{replica});
}

/// What it would have to lead on is nobody's any more.
void replica_state::on_router_down(caf::actor_id router) {
  if (routers_.erase(router) == 0)
    return;
  for (auto i = running_.begin(); i != running_.end();) {
    auto at = i++;
    auto& x = at->second;
    if (x.from->id() != router)
      continue;
    if (x.through && x.through->held)
      running_.erase(at);
    else
      drop(at);
  }
  end_if_idle();
}

} // namespace millrace

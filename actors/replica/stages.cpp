// SPDX-License-Identifier: Apache-2.0

/// \file
/// Batches of a REPLICA that has a part of a model. Problem: the output goes to
/// a replica that the router may not have chosen yet; router, next stage and
/// links can fail at any time. Approach: the router names the next stage in
/// run_batch or later in forward_batch. The output goes there as run_batch. The
/// next stage sends batch_accepted to the router, and to the stage before if
/// that requested a receipt.
///
/// States of a batch and transitions:
///   running    at the executor. executed -> held, or answered (last stage)
///   held       output kept, no next stage; batch_ran is sent if the policy
///              allows held output. forward_batch -> forwarded
///   forwarded  sent and forgotten: forward_batch and drop_batch for it are
///              answered batch_not_found
///   dropped    after drop_batch, or when the router is down. running: abandon
///              to the executor, then answered cancelled; held: ends at once
///   given up   drop_batch came before the batch, which is ignored (is_void)
/// If the next stage is down, the router gets next_stage_unreachable and sends
/// forward_batch or drop_batch.

#include <algorithm>

#include "actors/replica/replica_state.hpp"

namespace millrace {

bool replica_state::is_last_stage() const {
  return layers_.last == content_->info.layers.size();
}

/// Whether a batch from the stage before is to be ignored: its router dropped
/// it, or its credit is of an earlier announcement.
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

/// A batch of several stages arrived: sends batch_accepted to its router, and
/// to the stage before if it requested a receipt.
void replica_state::begin_journey(batch& begun, passage&& way, deadline due) {
  if (!way.visits.empty())
    self_->send(caf::actor_cast<router_actor>(begun.from),
                batch_accepted{begun.id});
  if (auto before = self_->current_sender(); before && way.receipt)
    self_->send(caf::actor_cast<replica_actor>(before),
                batch_accepted{begun.id});
  begun.through = std::make_unique<journey>();
  begun.through->way = std::move(way);
  begun.through->due = due;
}

/// The sender's batch with this id; end: not here.
replica_state::batch_map::iterator replica_state::find(uint64_t id) {
  auto from = self_->current_sender();
  return std::find_if(running_.begin(), running_.end(), [&](auto& entry) {
    auto& x = entry.second;
    return x.id == id && from && x.from->id() == from->id();
  });
}

void replica_state::end(batch_map::iterator entry) {
  running_.erase(entry);
  end_if_idle();
}

/// Keeps the output of a batch until its next stage is known.
void replica_state::hold(batch_map::iterator entry, execution_report& result) {
  auto& y = *entry->second.through;
  y.held = std::move(result);
  y.since = self_->clock().now();
  if (y.way.next)
    return go_on(entry);
  if (options_.what.policy.held > 0) {
    batch_extent all;
    for (auto& outputs : *y.held->outputs)
      all.add({bytes_of(outputs), outputs.size()});
    self_->send(caf::actor_cast<router_actor>(entry->second.from),
                batch_ran{entry->second.id, all.bytes});
  }
}

void replica_state::go_on(batch_map::iterator entry) {
  auto& y = *entry->second.through;
  auto to = std::move(*y.way.next);
  y.way.next.reset();
  if (!to.handle) {
    self_->send(caf::actor_cast<router_actor>(entry->second.from),
                next_stage_unreachable{to.replica});
    return;
  }
  if (auto share = refuse_too_large(to.handle, y.way.rows.size(), *y.held);
      share > 0)
    return answer(entry, *y.held, share);
  if (next_.emplace(to.handle->id(), to).second)
    self_->monitor(caf::actor_cast<caf::actor>(to.handle));
  y.way.visits.push_back({options_.what.replica, y.held->queue, y.held->run(),
                          to_us(self_->clock().now() - y.since),
                          options_.what.layers, y.held->interference});
  y.way.promise = to.promise;
  y.way.receipt = wants_receipt(entry->second.id, to.handle->id());
  run_batch next;
  next.id = entry->second.id;
  next.trace = entry->second.trace;
  for (auto& outputs : *y.held->outputs)
    next.items.push_back({y.due, std::move(outputs)});
  next.through = std::move(y.way);
  self_->send(caf::actor_cast<replica_actor>(to.handle), std::move(next));
  end(entry);
}

/// Measures the transfer time to a next stage once a second.
bool replica_state::wants_receipt(uint64_t id, caf::actor_id to) {
  constexpr auto period = 1s;
  auto now = self_->clock().now();
  if (on_the_way_.at != timestamp{} && now - on_the_way_.at < period)
    return false;
  on_the_way_ = {now, id, to};
  return true;
}

void replica_state::on_batch_accepted(const batch_accepted& message) {
  auto from = self_->current_sender();
  if (from && from->id() == on_the_way_.to && message.id == on_the_way_.id)
    sends_.add(self_->clock().now() - on_the_way_.at);
}

void replica_state::on_forward_batch(forward_batch& message) {
  auto i = find(message.id);
  if (i == running_.end() || !i->second.through) {
    if (auto from = self_->current_sender())
      self_->send(caf::actor_cast<router_actor>(from),
                  batch_not_found{message.id});
    return;
  }
  auto& y = *i->second.through;
  y.way.next = std::move(message.to);
  if (y.held)
    go_on(i);
}

void replica_state::on_drop(const drop_batch& message) {
  auto i = find(message.id);
  auto from = self_->current_sender();
  if (i == running_.end() && from) {
    constexpr size_t most = 256; // older batches cannot arrive any longer
    given_up_.push_back({from->id(), message.id});
    if (given_up_.size() > most)
      given_up_.pop_front();
    self_->send(caf::actor_cast<router_actor>(from),
                batch_not_found{message.id});
  }
  if (i == running_.end())
    return;
  if (i->second.through && i->second.through->held)
    cancel(i);
  else
    drop(i);
}

/// Abandons a batch that the executor has. The batch ends with its result.
void replica_state::drop(batch_map::iterator entry) {
  entry->second.dropped = true;
  self_->send(options_.executor, abandon{entry->first});
}

void replica_state::cancel(batch_map::iterator entry) {
  execution_report nothing;
  nothing.id = entry->first;
  nothing.outputs = error{ec::cancelled, {}};
  answer(entry, nothing);
}

/// A next stage is down. Batches sent there may be lost; batches bound for it
/// stay here until their router sends forward_batch or drop_batch.
void replica_state::on_next_down(const std::string& replica) {
  for (auto& [id, x] : running_)
    if (x.through && x.through->way.next
        && x.through->way.next->replica == replica)
      x.through->way.next.reset();
  for (auto& [id, router] : routers_)
    self_->send(caf::actor_cast<router_actor>(router),
                next_stage_unreachable{replica});
}

/// A router is down: its batches are dropped.
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

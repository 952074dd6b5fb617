// SPDX-License-Identifier: Apache-2.0

/// \file
/// Batches of a ROUTER that pass through several stages. Problem: replicas have
/// some layers each, and come, drain and die while batches are between them.
/// Approach: the router takes a credit of a replica of the next layers (bind)
/// and names it to the current stage in run_batch or forward_batch. Outputs go
/// directly to the next stage, which sends the router batch_accepted. So the
/// router knows the batches that are lost with a replica.
///
/// States of a batch (struct flight) and transitions:
///   unbound  in between_. A credit at a next stage -> bound;
///            batch_ran -> held (costs no credit) or blocked (costs a credit)
///   bound    next_id has a credit for it. batch_accepted -> the next stage has
///            it, unbound or last
///   in doubt its next stage is lost or unreachable, but may have it (reroute):
///            lost -> unbound again; unreachable -> dropped;
///            batch_not_found -> its requests are queued again
///   dropped  drop_batch was sent: no request is open, or no path leads on
///   last     no later stage
/// From any state: batch_done -> answered; its replica is lost -> its requests
/// are queued again, and orphans_ keeps its credit until drop_batch is settled.

#include <algorithm>

#include "actors/router/router_state.hpp"

namespace millrace {

namespace {

/// Time until a broken link between two live stages is tried again.
constexpr auto severed_for = 3s;

/// Most output, in bytes, that a replica holds without a credit.
constexpr uint64_t held_bytes_max = uint64_t{256} << 20;

bool is_settled(const std::vector<queued_request>& xs) {
  return std::all_of(xs.begin(), xs.end(), [](auto& x) { return x.settled; });
}

} // namespace

/// The passage of a batch that starts at its first stage.
std::optional<passage> router_state::begin_passage(uint64_t id, flight& batch) {
  passage out;
  out.router = caf::actor_cast<caf::strong_actor_ptr>(self_->ctrl());
  for (auto& request : batch.requests) {
    out.rows.push_back(request.rows);
    out.soonest.at = std::min(out.soonest.at, request.due.at);
  }
  out.next = bind(batch);
  if (!out.next)
    between_[batch.next_layer].push_back(id);
  return out;
}

/// Takes a credit of a replica that can run the batch next; none: no replica
/// has credit.
std::optional<next_stage> router_state::bind(flight& batch) {
  auto id = stages_->next(batch.next_layer, batch.replica_id);
  if (!id)
    return std::nullopt;
  auto& r = replicas_.at(*id);
  stages_->given(*id);
  set_credit(*id, r, r.credit - 1);
  batch.next_id = *id;
  batch.next_name = r.name;
  return next_stage{r.name, r.promise,
                    caf::actor_cast<caf::strong_actor_ptr>(r.handle)};
}

void router_state::unbind(flight& batch) {
  if (batch.next_id != 0)
    give_credit(std::exchange(batch.next_id, 0), 1);
}

/// Takes a batch from its next stage, to which it may be on its way. The credit
/// returns when the next stage has answered drop_batch.
void router_state::orphan(uint64_t id, flight& batch) {
  if (auto next = replicas_.find(batch.next_id); next != replicas_.end()) {
    orphans_.emplace(id, batch.next_id);
    batch.orphaned = true;
    self_->send(next->second.handle, drop_batch{id});
  }
  batch.next_id = 0;
}

/// Whether the sender answered the drop_batch of an orphan; returns its credit.
bool router_state::settle_orphan(uint64_t id) {
  auto from = self_->current_sender();
  if (orphans_.empty() || !from || orphans_.erase({id, from->id()}) == 0)
    return false;
  give_credit(from->id(), 1);
  pump();
  return true;
}

/// Binds unbound batches while next stages have credit, in FIFO order.
void router_state::bind_waiting() {
  for (auto& [layer, waiting] : between_)
    for (auto entry = waiting.begin(); entry != waiting.end();) {
      auto i = in_flight_.find(*entry);
      if (i != in_flight_.end() && i->second.next_layer == layer
          && i->second.next_id == 0 && !i->second.dropped) {
        if (auto to = bind(i->second)) {
          self_->send(replicas_.at(i->second.replica_id).handle,
                      forward_batch{i->first, std::move(*to)});
        } else if (severed_.empty()) {
          break;
        } else { // a batch of another replica may have a link
          ++entry;
          continue;
        }
      }
      entry = waiting.erase(entry);
    }
}

/// The output of a batch waits for a next stage. The credit of its replica
/// returns as long as the replica may hold more output.
void router_state::on_batch_ran(const batch_ran& message) {
  auto i = in_flight_.find(message.id);
  auto from = self_->current_sender();
  if (!from || i == in_flight_.end() || i->second.replica_id != from->id()
      || i->second.state != flight_state::running)
    return;
  auto by = replicas_.find(from->id());
  if (by == replicas_.end())
    return;
  i->second.output = message.bytes;
  i->second.state = flight_state::blocked;
  if (hold(by->second, i->second)) {
    give_credit(from->id(), 1);
    pump();
  } else {
    by->second.blocked.push_back(message.id);
  }
}

/// Tries to let a replica hold the output of a batch without a credit.
bool router_state::hold(replica& by, flight& batch) {
  if (by.held >= options_.policy.held
      || (by.held > 0 && by.held_bytes + batch.output > held_bytes_max))
    return false;
  ++by.held;
  by.held_bytes += batch.output;
  batch.state = flight_state::held;
  return true;
}

/// Frees credits of blocked batches after a replica may hold more output.
void router_state::hold_blocked(caf::actor_id id, replica& by) {
  for (; !by.blocked.empty(); by.blocked.pop_front()) {
    auto i = in_flight_.find(by.blocked.front());
    if (i == in_flight_.end() || i->second.replica_id != id
        || i->second.state != flight_state::blocked)
      continue; // the batch has left the replica
    if (!hold(by, i->second))
      return;
    give_credit(id, 1);
  }
}

/// A replica no longer has a batch: returns its credit, or frees its place for
/// held output.
void router_state::free_place(flight& batch, uint32_t credit) {
  auto bytes = std::exchange(batch.output, 0);
  auto was = std::exchange(batch.state, flight_state::running);
  if (was != flight_state::held)
    return give_credit(batch.replica_id, credit);
  auto by = replicas_.find(batch.replica_id);
  if (by == replicas_.end())
    return;
  --by->second.held;
  by->second.held_bytes -= bytes;
  hold_blocked(by->first, by->second);
}

void router_state::on_batch_accepted(const batch_accepted& message) {
  auto i = in_flight_.find(message.id);
  auto from = self_->current_sender();
  if (!from)
    return;
  if (i == in_flight_.end()) // given up; the replica does not have the drop yet
    return self_->send(caf::actor_cast<replica_actor>(from),
                       drop_batch{message.id});
  auto& mine = i->second;
  if (mine.next_id != from->id()) {
    auto by = replicas_.find(from->id());
    auto had_gone = !mine.in_doubt.empty() && by != replicas_.end()
                    && by->second.layers.first == mine.next_layer;
    if (!had_gone)
      return;     // the replica was given up in the meantime
    unbind(mine); // the batch arrived at its former next stage
    orphans_.erase({message.id, from->id()});
    mine.next_id = from->id();
    mine.next_name = by->second.name;
  }
  free_place(mine, 1);
  mine.passed = stays_of(mine);
  mine.since = now();
  mine.replica_id = std::exchange(mine.next_id, 0);
  mine.replica_name = std::move(mine.next_name);
  mine.next_layer = replicas_.at(mine.replica_id).layers.last;
  mine.in_doubt.clear();
  mine.dropped = mine.orphaned = false;
  go_on(message.id, mine);
  pump();
}

/// Queues a batch for its next stage, or drops it if it is useless.
void router_state::go_on(uint64_t id, flight& batch) {
  if (batch.dropped)
    return;
  if (passes_on(batch))
    between_[batch.next_layer].push_back(id);
  drop_if_useless(id, batch);
}

/// Drops a batch with no open request, or with no path to the last layer. A
/// batch on its way to a next stage keeps the credit there until one of the two
/// replicas answers.
void router_state::drop_if_useless(uint64_t id, flight& batch) {
  if (batch.dropped)
    return;
  auto stranded = passes_on(batch) && batch.next_id == 0
                  && !stages_->leads_on(batch.next_layer, batch.replica_id);
  if (stranded || is_settled(batch.requests))
    drop(id, batch);
}

void router_state::drop(uint64_t id, flight& batch) {
  batch.dropped = true;
  self_->send(replicas_.at(batch.replica_id).handle, drop_batch{id});
}

/// A replica was lost: batches bound to it get another next stage.
void router_state::leave(caf::actor_id gone) {
  for (auto& [id, x] : in_flight_)
    if (x.next_id == gone) {
      x.next_id = 0;
      reroute(id, x);
    }
}

/// Finds another next stage. If the batch was sent already, it is lost, and the
/// stage before answers batch_not_found. An orphaned batch is dropped: its
/// former next replica has recorded the drop and would refuse the batch.
void router_state::reroute(uint64_t id, flight& batch) {
  batch.in_doubt = batch.next_name;
  batch.dropped = false; // the batch may have left before the drop arrived
  batch.orphaned ? drop(id, batch) : go_on(id, batch);
}

/// Drops batches that have lost their path to the last layer.
void router_state::drop_stranded() {
  for (auto& [id, x] : in_flight_)
    drop_if_useless(id, x);
}

/// Whether a batch may still go to a draining replica, or may still be there.
bool router_state::may_need(const flight& batch, caf::actor_id id) const {
  if (!passes_on(batch))
    return false;
  if (batch.replica_id == id || batch.next_id == id)
    return true;
  auto bound = replicas_.find(batch.next_id);
  auto [at, layer] = bound == replicas_.end()
                       ? std::pair{batch.replica_id, batch.next_layer}
                       : std::pair{bound->first, bound->second.layers.last};
  return layer <= replicas_.at(id).layers.first && !stages_->is_open(layer, at);
}

/// Releases draining replicas that no batch can reach.
void router_state::release_drained() {
  std::erase_if(draining_, [this](caf::actor_id id) {
    auto& r = replicas_.at(id);
    if (std::any_of(in_flight_.begin(), in_flight_.end(),
                    [&](auto& entry) { return may_need(entry.second, id); }))
      return false;
    stages_->release(id);
    self_->send(r.handle, router_released{options_.node});
    return true;
  });
}

void router_state::on_batch_not_found(const batch_not_found& message) {
  if (settle_orphan(message.id))
    return;
  auto i = in_flight_.find(message.id);
  auto from = self_->current_sender();
  if (!from || i == in_flight_.end() || i->second.replica_id != from->id()
      || i->second.in_doubt.empty())
    return; // the batch is on its way, or done
  auto lost = std::move(i->second);
  in_flight_.erase(i);
  orphan(message.id, lost);
  free_place(lost, 1);
  give_back(lost,
            "the batch from " + lost.replica_name + " to " + lost.in_doubt
              + " was lost",
            loss::chance);
  pump();
}

/// Usually the next replica has died, and its down message follows: leave()
/// then reroutes. Otherwise only the link is broken: see resolve_doubts().
void router_state::on_next_stage_unreachable(
  const next_stage_unreachable& message) {
  auto from = self_->current_sender();
  if (!from)
    return;
  std::set<caf::actor_id> those;
  for (auto& [id, y] : in_flight_)
    if (y.replica_id == from->id() && y.next_id != 0
        && y.next_name == message.replica)
      those.insert(y.next_id);
  for (auto id : those) {
    std::erase_if(severed_,
                  [&](auto& y) { return y.at == from->id() && y.next == id; });
    stages_->sever(from->id(), id);
    doubts_.push_back({now() + options_.death_notice, from->id(), id});
    severed_.push_back({now() + severed_for, from->id(), id});
  }
  report();
  arm();
}

/// Reroutes the batches of links that are broken longer than death_notice, or
/// drops them when no path is left. Tries a link again after severed_for.
void router_state::resolve_doubts() {
  auto is_due = [this](auto& xs) {
    return !xs.empty() && xs.front().due <= now();
  };
  if (!is_due(doubts_) && !is_due(severed_))
    return;
  for (; is_due(doubts_); doubts_.pop_front()) {
    auto x = doubts_.front();
    for (auto& [id, y] : in_flight_)
      if (y.replica_id == x.at && y.next_id == x.next) {
        orphan(id, y);
        reroute(id, y);
      }
  }
  for (; is_due(severed_); severed_.pop_front())
    stages_->join(severed_.front().at, severed_.front().next);
  drop_stranded();
  report();
}

} // namespace millrace

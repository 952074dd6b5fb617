// SPDX-License-Identifier: Apache-2.0

/// \file
/// How a ROUTER leads batches through replicas that have parts of the model.
/// What a stage has computed goes straight to the next; the router says to
/// which: as soon as one has credit, at best while the stage before still runs.
/// It knows where each batch is, and so what is lost with a replica.

#include <algorithm>

#include "actors/router/router_state.hpp"

namespace millrace {

namespace {

bool is_settled(const std::vector<queued_request>& xs) {
  return std::all_of(xs.begin(), xs.end(), [](auto& x) { return x.settled; });
}

} // namespace

/// What a batch takes along that is given to its first stage.
std::optional<passage> router_state::begin_passage(uint64_t id, flight& x) {
  passage out;
  out.router = caf::actor_cast<caf::strong_actor_ptr>(self_->ctrl());
  for (auto& request : x.requests)
    out.rows.push_back(request.rows);
  out.next = bind(x);
  if (!out.next)
    between_[x.next_layer].push_back(id);
  return out;
}

/// Takes a credit of a replica that can run it next.
std::optional<next_stage> router_state::bind(flight& x) {
  auto id = stages_->next(x.next_layer);
  if (!id)
    return std::nullopt;
  auto& r = replicas_.at(*id);
  stages_->given(*id);
  set_credit(*id, r, r.credit - 1);
  x.next_id = *id;
  x.next_name = r.name;
  return next_stage{r.name, r.promise,
                    caf::actor_cast<caf::strong_actor_ptr>(r.handle)};
}

void router_state::unbind(flight& x) {
  if (x.next_id != 0)
    give_credit(std::exchange(x.next_id, 0), 1);
}

/// It is given up, and may be on its way to who has a credit for it: who is to
/// say that it is not, and will not be, before the credit counts again.
void router_state::orphan(uint64_t id, flight& x) {
  if (auto next = replicas_.find(x.next_id); next != replicas_.end()) {
    orphans_[id] = x.next_id;
    self_->send(next->second.handle, drop_batch{id});
  }
  x.next_id = 0;
}

/// A word on a batch that is not in flight.
void router_state::on_orphan(uint64_t id) {
  auto from = self_->current_sender();
  auto i = orphans_.find(id);
  if (!from || i == orphans_.end() || i->second != from->id())
    return; // of a replica that was given up meanwhile
  give_credit(i->second, 1);
  orphans_.erase(i);
  pump();
}

/// Those between two stages, as far as there is credit: in the order in which
/// they began to wait.
void router_state::bind_waiting() {
  for (auto& [layer, waiting] : between_)
    while (!waiting.empty()) {
      auto i = in_flight_.find(waiting.front());
      if (i != in_flight_.end() && i->second.next_layer == layer
          && i->second.next_id == 0 && !i->second.dropped) {
        auto to = bind(i->second);
        if (!to)
          break;
        self_->send(replicas_.at(i->second.replica_id).handle,
                    pass_on{i->first, std::move(*to)});
      }
      waiting.pop_front();
    }
}

void router_state::on_batch_taken(const batch_taken& x) {
  auto i = in_flight_.find(x.id);
  auto from = self_->current_sender();
  if (!from)
    return;
  if (i == in_flight_.end()) // given up meanwhile, and it has not heard of that
    return self_->send(caf::actor_cast<replica_actor>(from), drop_batch{x.id});
  auto& mine = i->second;
  if (mine.next_id != from->id()) {
    auto by = replicas_.find(from->id());
    auto had_gone = mine.in_doubt && by != replicas_.end()
                    && by->second.layers.first == mine.next_layer;
    if (!had_gone)
      return;     // of a replica that was given up meanwhile
    unbind(mine); // it will not go to who was to have it instead
    mine.next_id = from->id();
    mine.next_name = by->second.name;
  }
  give_credit(mine.replica_id, 1);
  mine.replica_id = std::exchange(mine.next_id, 0);
  mine.replica_name = std::move(mine.next_name);
  mine.next_layer = replicas_.at(mine.replica_id).layers.last;
  mine.in_doubt = mine.dropped = false;
  go_on(x.id, mine);
  pump();
}

/// Sees to it that a batch will leave the stage that has it.
void router_state::go_on(uint64_t id, flight& x) {
  if (!passes_on(x) || x.dropped)
    return;
  between_[x.next_layer].push_back(id);
  drop_if_useless(id, x);
}

/// What nobody waits for any more, or no replica can run on, is given up. It
/// may be on its way already to who has a credit for it: that stays so until
/// either says what has become of it.
void router_state::drop_if_useless(uint64_t id, flight& x) {
  if (!passes_on(x) || x.dropped)
    return;
  auto stranded = x.next_id == 0 && !stages_->leads_on(x.next_layer);
  if (stranded || is_settled(x.requests))
    drop(id, x);
}

void router_state::drop(uint64_t id, flight& x) {
  x.dropped = true;
  self_->send(replicas_.at(x.replica_id).handle, drop_batch{id});
}

/// A replica has gone: what was to go there next goes to another. Where it had
/// gone already it is lost; its stage will say so.
void router_state::leave(caf::actor_id gone) {
  for (auto& [id, x] : in_flight_)
    if (x.next_id == gone) {
      x.next_id = 0;
      x.in_doubt = true;
      x.dropped = false; // if it was, it may have gone on before that
      go_on(id, x);
    }
}

/// Fewer replicas lead on than before.
void router_state::drop_stranded() {
  for (auto& [id, x] : in_flight_)
    drop_if_useless(id, x);
}

/// Whether a batch that is on its way may yet go to a replica that drains, or
/// has not been seen to have left it.
bool router_state::may_need(const flight& x, caf::actor_id id) const {
  if (!passes_on(x))
    return false;
  if (x.replica_id == id || x.next_id == id)
    return true;
  auto bound = replicas_.find(x.next_id);
  auto from =
    bound == replicas_.end() ? x.next_layer : bound->second.layers.last;
  return from <= replicas_.at(id).layers.first && !stages_->is_open(from);
}

/// Those that drain end once nothing comes to them any more.
void router_state::release_drained() {
  std::erase_if(draining_, [this](caf::actor_id id) {
    auto& r = replicas_.at(id);
    if (std::any_of(in_flight_.begin(), in_flight_.end(),
                    [&](auto& entry) { return may_need(entry.second, id); }))
      return false;
    stages_->release(id);
    self_->send(r.handle, released{options_.node});
    return true;
  });
}

void router_state::on_not_held(const not_held& x) {
  auto i = in_flight_.find(x.id);
  if (i == in_flight_.end())
    return on_orphan(x.id);
  auto from = self_->current_sender();
  if (!from || i->second.replica_id != from->id() || !i->second.in_doubt)
    return; // it is on its way
  auto lost = std::move(i->second);
  in_flight_.erase(i);
  orphan(x.id, lost);
  give_credit(lost.replica_id, 1);
  give_back(lost, ec::unavailable);
  pump();
}

/// Most likely that one has died, which this router is about to hear as well:
/// then what was to go there goes to another. If not, the link between the two
/// has broken alone.
void router_state::on_cannot_reach(const cannot_reach& x) {
  auto from = self_->current_sender();
  if (!from)
    return;
  doubt y{now() + options_.death_notice, from->id(), {}};
  for (auto& [id, batch] : in_flight_)
    if (batch.replica_id == y.at && batch.next_id != 0
        && batch.next_name == x.replica)
      y.batches.emplace_back(id, batch.next_id);
  if (!y.batches.empty())
    doubts_.push_back(std::move(y));
  arm();
}

/// Gives up what could not go on, and still cannot.
void router_state::resolve_doubts() {
  while (!doubts_.empty() && doubts_.front().due <= now()) {
    auto x = std::move(doubts_.front());
    doubts_.pop_front();
    for (auto& [id, next] : x.batches) {
      auto i = in_flight_.find(id);
      if (i == in_flight_.end() || i->second.replica_id != x.at
          || i->second.next_id != next)
        continue;
      i->second.in_doubt = true;
      drop(id, i->second);
    }
  }
}

} // namespace millrace

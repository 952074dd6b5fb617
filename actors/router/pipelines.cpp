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

/// Until a link between two stages, which broke alone, is tried again.
constexpr auto severed_for = 3s;

/// Output that a replica holds for its next stage without a credit, at most.
constexpr uint64_t held_bytes_max = uint64_t{256} << 20;

bool is_settled(const std::vector<queued_request>& xs) {
  return std::all_of(xs.begin(), xs.end(), [](auto& x) { return x.settled; });
}

} // namespace

/// What a batch takes along that is given to its first stage.
std::optional<passage> router_state::begin_passage(uint64_t id, flight& x) {
  passage out;
  out.router = caf::actor_cast<caf::strong_actor_ptr>(self_->ctrl());
  for (auto& request : x.requests) {
    out.rows.push_back(request.rows);
    out.soonest.at = std::min(out.soonest.at, request.due.at);
  }
  out.next = bind(x);
  if (!out.next)
    between_[x.next_layer].push_back(id);
  return out;
}

/// Takes a credit of a replica that can run it next.
std::optional<next_stage> router_state::bind(flight& x) {
  auto id = stages_->next(x.next_layer, x.replica_id);
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

/// It is not to go where it may be on its way to: who has a credit for it there
/// is to say that it is not, and will not be, before the credit counts again.
void router_state::orphan(uint64_t id, flight& x) {
  if (auto next = replicas_.find(x.next_id); next != replicas_.end()) {
    orphans_.emplace(id, x.next_id);
    x.orphaned = true;
    self_->send(next->second.handle, drop_batch{id});
  }
  x.next_id = 0;
}

/// Whether this is a word on a batch that its sender was to drop.
bool router_state::settle_orphan(uint64_t id) {
  auto from = self_->current_sender();
  if (orphans_.empty() || !from || orphans_.erase({id, from->id()}) == 0)
    return false;
  give_credit(from->id(), 1);
  pump();
  return true;
}

/// Those between two stages, as far as there is credit: in the order in which
/// they began to wait.
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
        } else { // what another hands on may have a way
          ++entry;
          continue;
        }
      }
      entry = waiting.erase(entry);
    }
}

/// The output of a batch waits at a stage that could run others. The run credit
/// comes back as long as the stage may hold more output.
void router_state::on_batch_ran(const batch_ran& x) {
  auto i = in_flight_.find(x.id);
  auto from = self_->current_sender();
  if (!from || i == in_flight_.end() || i->second.replica_id != from->id()
      || i->second.output)
    return;
  auto by = replicas_.find(from->id());
  if (by == replicas_.end())
    return;
  i->second.output = x.bytes;
  if (hold(by->second, i->second)) {
    give_credit(from->id(), 1);
    pump();
  } else {
    by->second.blocked.push_back(x.id);
  }
}

/// Whether a replica may hold the output of a batch without a credit, and from
/// now on does.
bool router_state::hold(replica& by, flight& x) {
  if (by.held >= options_.policy.held
      || (by.held > 0 && by.held_bytes + *x.output > held_bytes_max))
    return false;
  ++by.held;
  by.held_bytes += *x.output;
  x.held = true;
  return true;
}

/// A replica may hold more output than before.
void router_state::hold_blocked(caf::actor_id id, replica& by) {
  for (; !by.blocked.empty(); by.blocked.pop_front()) {
    auto i = in_flight_.find(by.blocked.front());
    if (i == in_flight_.end() || i->second.replica_id != id || !i->second.output
        || i->second.held)
      continue; // it has left
    if (!hold(by, i->second))
      return;
    give_credit(id, 1);
  }
}

/// A replica no longer has a batch: its credit is free, or its output is.
void router_state::free_place(flight& x, uint32_t credit) {
  auto bytes = std::exchange(x.output, std::nullopt);
  if (!std::exchange(x.held, false))
    return give_credit(x.replica_id, credit);
  auto by = replicas_.find(x.replica_id);
  if (by == replicas_.end())
    return;
  --by->second.held;
  by->second.held_bytes -= *bytes;
  hold_blocked(by->first, by->second);
}

void router_state::on_batch_accepted(const batch_accepted& x) {
  auto i = in_flight_.find(x.id);
  auto from = self_->current_sender();
  if (!from)
    return;
  if (i == in_flight_.end()) // given up meanwhile, and it has not heard of that
    return self_->send(caf::actor_cast<replica_actor>(from), drop_batch{x.id});
  auto& mine = i->second;
  if (mine.next_id != from->id()) {
    auto by = replicas_.find(from->id());
    auto had_gone = !mine.in_doubt.empty() && by != replicas_.end()
                    && by->second.layers.first == mine.next_layer;
    if (!had_gone)
      return;     // of a replica that was given up meanwhile
    unbind(mine); // it will not go to who was to have it instead
    orphans_.erase({x.id, from->id()});
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
  go_on(x.id, mine);
  pump();
}

/// Sees to it that a batch will leave the stage that has it.
void router_state::go_on(uint64_t id, flight& x) {
  if (x.dropped)
    return;
  if (passes_on(x))
    between_[x.next_layer].push_back(id);
  drop_if_useless(id, x);
}

/// What nobody waits for any more, or no replica can run on, is given up: it is
/// not begun, and ended if need be, where it is. Between two stages it may be
/// on its way already to who has a credit for it: that stays so until either
/// says what has become of it.
void router_state::drop_if_useless(uint64_t id, flight& x) {
  if (x.dropped)
    return;
  auto stranded = passes_on(x) && x.next_id == 0
                  && !stages_->leads_on(x.next_layer, x.replica_id);
  if (stranded || is_settled(x.requests))
    drop(id, x);
}

void router_state::drop(uint64_t id, flight& x) {
  x.dropped = true;
  self_->send(replicas_.at(x.replica_id).handle, drop_batch{id});
}

/// A replica has gone: what was to go there next goes to another.
void router_state::leave(caf::actor_id gone) {
  for (auto& [id, x] : in_flight_)
    if (x.next_id == gone) {
      x.next_id = 0;
      reroute(id, x);
    }
}

/// Where it has gone already it is lost: who had it before will say so. One
/// that was told to drop it would do so however it came there.
void router_state::reroute(uint64_t id, flight& x) {
  x.in_doubt = x.next_name;
  x.dropped = false; // if it was, it may have gone on before that
  x.orphaned ? drop(id, x) : go_on(id, x);
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
  auto [at, layer] = bound == replicas_.end()
                       ? std::pair{x.replica_id, x.next_layer}
                       : std::pair{bound->first, bound->second.layers.last};
  return layer <= replicas_.at(id).layers.first && !stages_->is_open(layer, at);
}

/// Those that drain end once nothing comes to them any more.
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

void router_state::on_batch_not_found(const batch_not_found& x) {
  if (settle_orphan(x.id))
    return;
  auto i = in_flight_.find(x.id);
  auto from = self_->current_sender();
  if (!from || i == in_flight_.end() || i->second.replica_id != from->id()
      || i->second.in_doubt.empty())
    return; // it is on its way, or done
  auto lost = std::move(i->second);
  in_flight_.erase(i);
  orphan(x.id, lost);
  free_place(lost, 1);
  give_back(lost,
            "what " + lost.replica_name + " handed on to " + lost.in_doubt
              + " was lost",
            loss::chance);
  pump();
}

/// Most likely that one has died, which this router is about to hear as well:
/// then what was to go there goes to another. If not, the link between the two
/// has broken alone.
void router_state::on_next_stage_unreachable(const next_stage_unreachable& x) {
  auto from = self_->current_sender();
  if (!from)
    return;
  std::set<caf::actor_id> those;
  for (auto& [id, y] : in_flight_)
    if (y.replica_id == from->id() && y.next_id != 0
        && y.next_name == x.replica)
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

/// What could not go on, and still cannot, goes another way; if there is none,
/// it is given up. After a while the link is tried again.
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

// SPDX-License-Identifier: Apache-2.0
#include "actors/router/router_state.hpp"

#include <algorithm>
#include <utility>

#include "runtime/log.hpp"
#include "transport/remote_actor.hpp"

namespace millrace {

void router_state::start(router_actor::stateful_pointer<router_state> self,
                         router_options options, gateway_actor gateway,
                         std::shared_ptr<metrics> counts) {
  self_ = self;
  gateway_ = std::move(gateway);
  counts_ = std::move(counts);
  options_ = std::move(options);
  was_served_ = options_.waits;
  queue_.emplace(options_.policy, options_.batch_axis);
  stages_.emplace(options_.policy.dispatch, random_stream{options_.seed});
  // A restarted router has the same address, so replicas cannot tell the two
  // apart: their batch numbers must differ.
  last_batch_ = uint64_t{self->id()} << 32;
  learn_limits();
  shown();
  set_common_handlers(self);
  self->set_down_handler([this](caf::down_msg& x) { on_down(x); });
}

namespace {

/// retry_after for a model in parts that are being loaded.
constexpr microseconds parts_soon = 100ms;

} // namespace

router_state::series& router_state::shown() {
  if (!series_) {
    model_label mine{options_.model, options_.version};
    series_.emplace(counts_->queue_length(mine), counts_->replicas_ready(mine),
                    counts_->redispatched(mine));
  }
  return *series_;
}

timestamp router_state::now() const {
  return self_->clock().now();
}

void router_state::on_route(route& message) {
  auto time = now();
  std::vector<queued_request> handed_on;
  for (auto& y : message.requests) {
    queued_request request{y.key,  y.due, y.priority, std::move(y.inputs),
                           y.rows, time,  y.once};
    if (poisons_.contains(request.inputs)) {
      settle_as(request, ec::poison,
                "these inputs have crashed the process of model '"
                  + options_.model + "' before");
      continue;
    }
    if (request.rows > largest_.rows_max) {
      refuse_too_large(request);
      continue;
    }
    if (auto& past = y.past) {
      request.arrived -= past->waited;
      request.attempts = past->attempts;
      request.crashes = past->crashes;
      request.suspect = past->suspect;
      request.alone = past->alone;
      request.vain = std::move(past->vain);
      handed_on.push_back(std::move(request));
      continue;
    }
    // Does not queue, as without any ready replica: loading may take long.
    if (!was_served_)
      settle_as(request, ec::unavailable,
                "not all parts of model '" + options_.model + "' are ready yet",
                parts_soon);
    else if (!queue_->push(request))
      settle_as(request, ec::overloaded,
                "the queue of model '" + options_.model + "' is full ("
                  + std::to_string(queue_->size()) + " requests)",
                queue_->time_to_drain(execution_, largest_.rows));
  }
  for (auto i = handed_on.rbegin(); i != handed_on.rend(); ++i)
    queue_->put_back(std::move(*i));
  pump();
}

void router_state::on_cancel_request(const cancel_request& message) {
  if (auto waiting = queue_->take_out(message.key))
    return self_->send(gateway_, track_of(*waiting, nullptr));
  for (auto& [id, flight] : in_flight_)
    for (auto& request : flight.requests)
      if (request.key == message.key) {
        self_->send(gateway_, track_of(request, &flight));
        request.settled = true; // must not run again
        return drop_if_useless(id, flight);
      }
}

void router_state::on_ready(const replica_ready& message) {
  // A new promise: the replica lost its link to this router for a time and
  // dropped all batches of this router.
  if (auto known = replicas_.find(message.handle->id());
      known != replicas_.end() && known->second.promise != message.promise)
    lose(known, "its link to this router was lost for a time");
  auto [i, fresh] = replicas_.try_emplace(message.handle->id());
  auto& r = i->second;
  r.handle = caf::actor_cast<replica_actor>(message.handle);
  r.is_remote = as_proxy(message.handle) != nullptr;
  r.name = message.name;
  r.layers = message.layers;
  r.promise = message.promise;
  r.confined = message.confined;
  r.draining = false;
  draining_.erase(i->first);
  layers_ = std::max<uint64_t>(1, message.info.layer_bytes.size());
  stages_->add(i->first, r.layers, layers_);
  retired_ = false;
  if (std::exchange(version_, message.info.version) != message.info.version) {
    poisons_.clear();
    queue_->limit_share(1);
  }
  set_credit(i->first, r, r.credit + message.limits.credit - r.limits.credit);
  r.limits = message.limits;
  stages_->set_weight(i->first, message.limits.weight);
  if (fresh) {
    self_->monitor(r.handle);
    log_event(log_level::info, "router", "replica_ready",
              {{"model", options_.model},
               {"replica", message.name},
               {"node", message.node}});
  }
  learn_limits();
  report();
  pump();
}

void router_state::on_draining(const replica_draining& message) {
  auto i = replicas_.find(message.handle->id());
  if (i == replicas_.end())
    return self_->send(caf::actor_cast<replica_actor>(message.handle),
                       router_released{options_.node});
  i->second.draining = true;
  draining_.insert(i->first);
  if (message.lost) {
    stages_->release(i->first);
    leave(i->first);
  } else {
    stages_->close(i->first);
  }
  learn_limits();
  drop_stranded();
  report();
  pump();
}

void router_state::on_drain_queue(const drain_queue& message) {
  retired_ = message.closed;
  hand_back();
  pump();
}

void router_state::on_tick() {
  alarm_.rings(now()); // lose() also sends a tick
  pump();
}

/// Expected time of the next batch from the queue.
microseconds router_state::expected_of_next() const {
  return times_.expected(
    std::clamp<uint64_t>(queue_->rows(), 1, largest_.rows));
}

/// Answers requests with a passed deadline, and requests that would miss the
/// deadline if a batch takes the expected time. A request that has not run and
/// has time left is answered overloaded, so that its client can retry.
void router_state::drop_late(microseconds expected) {
  for (auto& x : queue_->take_late(now(), expected)) {
    if (now() >= x.due.at) {
      settle_as(x, ec::deadline_exceeded,
                "waited too long for a replica of model '" + options_.model
                  + "'");
      continue;
    }
    auto may_have_run = x.attempts > 0;
    settle_as(
      x, may_have_run ? ec::deadline_exceeded : ec::overloaded,
      "no replica of model '" + options_.model
        + "' is free, and with the recent time of a batch ("
        + format_duration(expected) + ") the answer would miss the deadline",
      may_have_run ? 0us : queue_->time_to_drain(expected, largest_.rows));
  }
}

void router_state::set_credit(caf::actor_id id, replica& entry,
                              int64_t credit) {
  entry.credit = credit;
  stages_->set_credit(id, static_cast<uint32_t>(std::max<int64_t>(0, credit)));
}

void router_state::give_credit(caf::actor_id id, uint32_t credit) {
  if (auto r = replicas_.find(id); r != replicas_.end())
    set_credit(id, r->second, r->second.credit + credit);
}

void router_state::pump() {
  if (retired_)
    hand_back();
  resolve_doubts();
  bind_waiting();
  for (auto& x : queue_->take_larger(largest_.rows_max))
    refuse_too_large(x);
  // With a free replica the next requests run, whatever their estimate: an
  // estimate that is too high could not be corrected otherwise.
  auto able = next_replica();
  able_since_ = able ? std::min(able_since_, now()) : far_future;
  drop_late(able ? microseconds{0} : expected_of_next());
  while (able) {
    auto& to = replicas_.at(*able);
    auto batch = queue_->take(now(), limit_of(to));
    if (batch.empty())
      break;
    dispatch(to, std::move(batch));
    able = next_replica();
  }
  if (!able)
    able_since_ = far_future;
  if (retired_)
    series_.reset();
  else
    shown().queue_length.set(static_cast<double>(queue_->size()));
  if (!draining_.empty())
    release_drained();
  arm();
}

void router_state::hand_back() {
  requests_returned out;
  for (auto& x : queue_->take_all())
    out.requests.push_back(
      {x.key, x.due, x.priority, std::move(x.inputs), x.rows, x.once,
       request_past{to_us(now() - x.arrived), x.attempts, x.crashes, x.suspect,
                    x.alone, std::move(x.vain)}});
  if (!out.requests.empty())
    self_->send(gateway_, std::move(out));
}

void router_state::dispatch(replica& to, std::vector<queued_request> batch) {
  auto id = ++last_batch_;
  run_batch x;
  x.id = id;
  x.trace = options_.spans->on() ? record_waits(id, batch) : 0;
  x.items.reserve(batch.size());
  for (auto& request : batch) {
    ++request.attempts;
    x.items.push_back({request.due, request.inputs});
  }
  stages_->given(to.handle->id());
  set_credit(to.handle->id(), to, to.credit - 1);
  auto& sizes = shown().batch_size;
  if (!sizes)
    sizes.emplace(counts_->batch_size({options_.model, options_.version}));
  sizes->observe(static_cast<double>(batch.size()));
  auto time = now();
  auto& mine = in_flight_
                 .emplace(id, flight{to.handle->id(), to.name, time, time,
                                     std::move(batch), x.trace, to.layers.last})
                 .first->second;
  mine.able_since = able_since_;
  if (passes_on(mine))
    x.through = begin_passage(id, mine);
  self_->send(to.handle, std::move(x));
}

/// Records the queue time of each request; returns the trace id of the batch.
uint64_t router_state::record_waits(uint64_t id,
                                    const std::vector<queued_request>& batch) {
  auto trace = std::max(options_.seed + id, uint64_t{1});
  for (auto& x : batch)
    options_.spans->add("router/", options_.model, "waits", x.arrived, now(),
                        x.key, trace);
  return trace;
}

void router_state::on_batch_done(batch_done& message) {
  if (settle_orphan(message.id))
    return;
  auto i = in_flight_.find(message.id);
  auto from = self_->current_sender();
  if (i == in_flight_.end() || !from || !replicas_.contains(from->id()))
    return; // given back in the meantime, or not a replica of this router
  auto done = std::move(i->second);
  in_flight_.erase(i);
  unbind(done);
  if (done.trace != 0 && options_.spans->on())
    options_.spans->add("router/", options_.model, "given", done.sent, now(), 0,
                        done.trace, done.replica_name);
  drop_late(expected_of_next());
  free_place(done, message.credit);
  if (message.status == ec::ok
      && message.outputs.size() == done.requests.size())
    settle_batch(done, message);
  else if (message.status == ec::unavailable && message.visits.empty())
    take_back(done);
  else if (message.status == ec::unavailable) // not run at a later stage
    give_back(done, done.replica_name + ": " + message.text, loss::chance);
  else if (message.status == ec::cancelled)
    give_back(done,
              message.text.empty()
                ? "no replica could go on after " + done.replica_name
                : done.replica_name + ": " + message.text,
              loss::chance);
  else if (message.status == ec::poison)
    give_back(done, message.text, loss::over);
  else if (message.status == ec::too_large && message.share_of_message > 0
           && done.requests.size() > 1)
    split_batch(done, message);
  else
    fail_batch(done, message);
  pump();
}

void router_state::on_down(const caf::down_msg& down) {
  if (auto i = replicas_.find(down.source.id()); i != replicas_.end())
    lose(i, from_caf(down.reason).text);
}

/// Removes a lost replica; its batches go to other replicas.
void router_state::lose(replica_map::iterator i, const std::string& reason) {
  if (i->second.draining)
    log_event(log_level::info, "router", "replica_gone",
              {{"model", options_.model}, {"replica", i->second.name}});
  else
    log_event(log_level::warning, "router", "replica_lost",
              {{"model", options_.model},
               {"replica", i->second.name},
               {"reason", reason}});
  auto id = i->first;
  auto why = "replica " + i->second.name + " was lost";
  auto how = i->second.confined ? loss::chance : loss::maybe_over;
  stages_->remove(id);
  draining_.erase(id);
  replicas_.erase(i);
  learn_limits();
  std::vector<flight> lost;
  std::erase_if(orphans_, [&](auto& x) { return x.second == id; });
  for (auto entry = in_flight_.begin(); entry != in_flight_.end();) {
    if (entry->second.replica_id != id) {
      ++entry;
      continue;
    }
    orphan(entry->first, entry->second);
    lost.push_back(std::move(entry->second));
    entry = in_flight_.erase(entry);
  }
  for (auto& x : lost)
    give_back(x, why, how);
  leave(id);
  drop_stranded();
  report();
  // Not at once: down messages of the same node's replicas may follow.
  self_->send(self_, tick::value);
}

backlog router_state::current_backlog() const {
  backlog out{queue_->size(), 0us};
  if (auto first = queue_->oldest(); first != far_future)
    out.oldest = to_us(now() - first);
  return out;
}

void router_state::on_get_backlog() {
  self_->send(gateway_, current_backlog());
}

queue_status router_state::on_get_queue() const {
  queue_status out;
  out.model = options_.model;
  out.version = options_.version;
  auto waits = current_backlog();
  out.waiting = waits.waiting;
  out.oldest = waits.oldest;
  out.most = options_.policy.queue;
  out.expected = expected_of_next();
  out.poisons = poisons_.size();
  out.layers = layers_;
  std::map<caf::actor_id, served_replica> by_id;
  for (auto& [id, r] : replicas_)
    by_id[id] = {
      r.name,     static_cast<uint32_t>(std::max<int64_t>(0, r.credit)),
      0,          0,
      r.draining, r.layers,
      0};
  for (auto& [id, flight] : in_flight_) {
    out.running += flight.requests.size();
    auto i = by_id.find(flight.replica_id);
    if (i == by_id.end())
      continue;
    ++i->second.batches;
    i->second.requests += flight.requests.size();
    i->second.unbound += passes_on(flight) && flight.next_id == 0;
  }
  for (auto& [id, r] : by_id)
    out.replicas.push_back(std::move(r));
  return out;
}

void router_state::report() {
  auto n = std::count_if(replicas_.begin(), replicas_.end(),
                         [](auto& x) { return !x.second.draining; });
  if (!retired_)
    shown().replicas_ready.set(static_cast<double>(n));
  if (available_ == stages_->is_open(0))
    return;
  available_ = !available_;
  was_served_ = was_served_ || available_;
  self_->send(gateway_, model_availability{available_});
}

void router_state::arm() {
  auto able = next_replica();
  auto due = queue_->next_due(able ? limit_of(replicas_.at(*able)).rows : 0);
  for (auto* links : {&doubts_, &severed_})
    if (!links->empty())
      due = std::min(due, links->front().due);
  alarm_.set(self_, due);
}

router_actor::behavior_type
router(router_actor::stateful_pointer<router_state> self,
       router_options options, gateway_actor gateway,
       std::shared_ptr<metrics> counts) {
  auto& s = self->state;
  s.start(self, std::move(options), std::move(gateway), std::move(counts));
  return {
    [&s](route& x) { s.on_route(x); },
    [&s](const cancel_request& x) { s.on_cancel_request(x); },
    [&s](batch_done& x) { s.on_batch_done(x); },
    [&s](const batch_accepted& x) { s.on_batch_accepted(x); },
    [&s](const batch_ran& x) { s.on_batch_ran(x); },
    [&s](const batch_not_found& x) { s.on_batch_not_found(x); },
    [&s](const next_stage_unreachable& x) { s.on_next_stage_unreachable(x); },
    [&s](const replica_ready& x) { s.on_ready(x); },
    [&s](const replica_tuned& x) { s.on_tuned(x); },
    [&s](const serving_policy& x) { s.on_policy(x); },
    [&s](const replica_draining& x) { s.on_draining(x); },
    [&s](const drain_queue& x) { s.on_drain_queue(x); },
    [&s](get_backlog) { s.on_get_backlog(); },
    [&s](get_queue) { return s.on_get_queue(); },
    [&s](const get_tracks& x) { return s.on_get_tracks(x); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace

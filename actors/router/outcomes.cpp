// SPDX-License-Identifier: Apache-2.0

/// \file
/// Outcomes of a ROUTER's requests: answers, retries, and their progress for
/// operators.

#include <algorithm>
#include <utility>

#include "actors/router/router_state.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

outcome outcome_of(queued_request& x, ec status, microseconds queue) {
  return {x.key, status, {}, {}, {}, queue, x.attempts, std::move(x.vain), 0us};
}

/// Waiting time of a batch, summed over the replicas of all stages.
microseconds waited_in(const requests_completed& x, microseconds in_the_last) {
  if (x.visits.empty())
    return in_the_last;
  auto out = 0us;
  for (auto& visit : x.visits)
    out += visit.queue + visit.held;
  return out;
}

/// Moving average that rises fast and falls slowly: an estimate that is too low
/// lets requests run that miss their deadline.
void learn(microseconds& average, microseconds newest) {
  auto part = average == 0us ? 1 : newest > average ? 2 : 8;
  average += (newest - average) / part;
}

} // namespace

void router_state::settle_as(queued_request& request, ec status,
                             std::string text, microseconds retry_after) {
  requests_completed y;
  auto& z = y.outcomes.emplace_back(
    outcome_of(request, status, to_us(now() - request.arrived)));
  z.text = std::move(text);
  z.retry_after = retry_after;
  self_->send(gateway_, std::move(y));
}

/// The message for a finished batch, without the outcomes of its requests.
requests_completed router_state::results_of(flight& done, batch_done& message) {
  requests_completed y;
  y.visits = std::move(message.visits);
  if (!y.visits.empty())
    y.visits.push_back({done.replica_name, message.queue, message.execute, 0us,
                        replicas_.at(done.replica_id).layers,
                        message.interference});
  y.replica = done.replica_name;
  y.execute = y.visits.empty() ? message.execute : 0us;
  y.interference = y.visits.empty() ? message.interference : 0us;
  for (auto& visit : y.visits) {
    y.execute += visit.execute;
    y.interference += visit.interference;
  }
  return y;
}

void router_state::settle_batch(flight& done, batch_done& message) {
  auto y = results_of(done, message);
  learn(execution_, y.execute);
  uint64_t rows = 0;
  for (auto& request : done.requests)
    rows += request.rows;
  times_.add(rows, to_us(now() - done.sent));
  auto waited = waited_in(y, message.queue);
  y.outcomes.reserve(done.requests.size());
  for (size_t i = 0; i < done.requests.size(); ++i) {
    auto& request = done.requests[i];
    y.outcomes.push_back(
      outcome_of(request, ec::ok, to_us(done.sent - request.arrived) + waited));
    y.outcomes.back().outputs = std::move(message.outputs[i]);
    auto able = std::max(done.able_since, request.arrived);
    y.outcomes.back().gathered =
      to_us(std::max(0ns, nanoseconds{done.sent - able}));
  }
  self_->send(gateway_, std::move(y));
}

bool router_state::is_last_attempt(const queued_request& request) const {
  return request.attempts >= max_attempts || request.once
         || options_.policy.retry == retry_policy::never;
}

void router_state::fail_batch(flight& done, batch_done& message) {
  auto status = message.status == ec::ok ? ec::internal : message.status;
  auto alone = done.requests.size() == 1;
  auto y = results_of(done, message);
  auto waited = waited_in(y, message.queue);
  std::vector<queued_request> again;
  for (auto& r : done.requests) {
    if (r.settled)
      continue;
    if (alone || is_last_attempt(r)) {
      y.outcomes.push_back(
        outcome_of(r, status, to_us(done.sent - r.arrived) + waited));
      y.outcomes.back().text = message.text;
    } else { // one request may have caused the failure
      r.alone = true;
      r.vain.push_back(
        {stays_of(done), "the whole batch failed: " + message.text});
      again.push_back(std::move(r));
    }
  }
  try_again(std::move(again), took_long(done));
  if (!y.outcomes.empty())
    self_->send(gateway_, std::move(y));
}

/// Splits a batch with results too large for one message between nodes. The
/// requests run again in smaller batches, and the inputs of later batches are
/// limited so that the results fit. Result size is assumed to be proportional
/// to input size.
void router_state::split_batch(flight& done, batch_done& message) {
  batch_extent inputs;
  for (auto& r : done.requests)
    inputs.add(r.extent());
  auto fits =
    inputs.share_of_message() / std::max(2., message.share_of_message);
  if (fits < queue_->most_share()) {
    queue_->limit_share(fits);
    log_event(log_level::warning, "router", "batches_limited",
              {{"model", options_.model},
               {"requests", done.requests.size()},
               {"reason", message.text}});
  }
  for (auto& r : done.requests)
    if (!r.settled
        && (r.once || options_.policy.retry == retry_policy::never)) {
      r.settled = true;
      settle_as(r, ec::unavailable,
                "the results of its batch do not fit into one message, and the"
                " request must not be run twice; later batches are smaller");
    }
  take_back(done);
}

/// Whether a batch took far longer than recent batches: one of its requests may
/// hang the model.
bool router_state::took_long(const flight& batch) const {
  constexpr microseconds at_least = 100ms; // a shorter delay is harmless
  return to_us(now() - batch.since) > std::max(at_least, 4 * execution_);
}

/// Queues requests again: at the front, or with `behind` at the back, after
/// they have delayed others.
void router_state::try_again(std::vector<queued_request> xs, bool behind) {
  for (auto& x : xs) // the gateway needs the attempts if no outcome follows
    self_->send(gateway_, track_of(x, nullptr));
  if (behind)
    for (auto& x : xs)
      queue_->put_behind(std::move(x));
  else // in reverse, so that the first request is in front again
    for (auto i = xs.rbegin(); i != xs.rend(); ++i)
      queue_->put_back(std::move(*i));
}

void router_state::take_back(flight& unused) {
  for (auto i = unused.requests.rbegin(); i != unused.requests.rend(); ++i) {
    if (i->settled)
      continue;
    --i->attempts;
    queue_->put_back(std::move(*i));
  }
}

void router_state::give_back(flight& lost, const std::string& why, loss how) {
  auto stays = stays_of(lost);
  std::vector<queued_request> again;
  for (auto& x : lost.requests) {
    if (x.settled)
      continue;
    x.vain.push_back({stays, why});
    x.crashes += how == loss::over;
    x.suspect += how != loss::chance;
    if (is_last_attempt(x)) {
      give_up(x, why);
      continue;
    }
    shown().redispatched.add();
    if (how != loss::chance)
      x.alone = true; // one request may have caused the loss
    again.push_back(std::move(x));
  }
  try_again(std::move(again), how == loss::over && took_long(lost));
}

void router_state::give_up(queued_request& request, const std::string& why) {
  if (request.attempts < max_attempts)
    return settle_as(request, ec::unavailable,
                     why
                       + "; it may have run this request, which must not be run"
                         " twice");
  auto crashed = request.crashes == max_attempts;
  settle_as(
    request, request.suspect == max_attempts ? ec::poison : ec::unavailable,
    why + "; this request, which had failed before, is not tried again");
  if (crashed)
    log_event(
      log_level::error, "router", "poison",
      {{"model", options_.model}, {"sha256", poisons_.add(request.inputs)}});
}

std::vector<stay> router_state::stays_of(const flight& batch) const {
  auto out = batch.passed;
  out.push_back({batch.replica_name, to_us(now() - batch.since)});
  return out;
}

request_track router_state::track_of(const queued_request& request,
                                     const flight* in) const {
  auto given = in == nullptr ? now() : in->sent;
  return {request.key, request.attempts, to_us(given - request.arrived),
          request.vain, in == nullptr ? std::vector<stay>{} : stays_of(*in)};
}

track_list router_state::on_get_tracks(const get_tracks& query) const {
  track_list out;
  std::set<uint64_t> given;
  for (auto key : query.keys)
    if (auto* waiting = queue_->find(key))
      out.tracks.push_back(track_of(*waiting, nullptr));
    else
      given.insert(key);
  for (auto& [id, flight] : in_flight_)
    for (auto& request : flight.requests)
      if (given.contains(request.key))
        out.tracks.push_back(track_of(request, &flight));
  return out;
}

} // namespace millrace

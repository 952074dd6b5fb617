// SPDX-License-Identifier: Apache-2.0

/// \file
/// What becomes of the requests that a ROUTER has: their answers, further
/// attempts, and, for people, how far they are.

#include <algorithm>
#include <utility>

#include "actors/router/router_state.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

outcome outcome_of(queued_request& x, ec status, microseconds queue) {
  return {x.key, status, {}, {}, {}, queue, x.attempts, std::move(x.vain), 0us};
}

/// What a batch waited for in its replica, or in all of them.
microseconds waited_in(const requests_completed& x, microseconds in_the_last) {
  if (x.visits.empty())
    return in_the_last;
  auto out = 0us;
  for (auto& visit : x.visits)
    out += visit.queue + visit.held;
  return out;
}

/// Up fast and down slowly: what is expected too soon is run for nothing.
void learn(microseconds& average, microseconds newest) {
  auto part = average == 0us ? 1 : newest > average ? 2 : 8;
  average += (newest - average) / part;
}

} // namespace

void router_state::settle_as(queued_request& x, ec status, std::string text,
                             microseconds retry_after) {
  requests_completed y;
  auto& z =
    y.outcomes.emplace_back(outcome_of(x, status, to_us(now() - x.arrived)));
  z.text = std::move(text);
  z.retry_after = retry_after;
  self_->send(gateway_, std::move(y));
}

/// But for the outcomes of its requests.
requests_completed router_state::results_of(flight& done, batch_done& x) {
  requests_completed y;
  y.visits = std::move(x.visits);
  if (!y.visits.empty())
    y.visits.push_back({done.replica_name, x.queue, x.execute, 0us,
                        replicas_.at(done.replica_id).layers, x.interference});
  y.replica = done.replica_name;
  y.execute = y.visits.empty() ? x.execute : 0us;
  y.interference = y.visits.empty() ? x.interference : 0us;
  for (auto& visit : y.visits) {
    y.execute += visit.execute;
    y.interference += visit.interference;
  }
  return y;
}

void router_state::settle_batch(flight& done, batch_done& x) {
  auto y = results_of(done, x);
  learn(execution_, y.execute);
  uint64_t rows = 0;
  for (auto& request : done.requests)
    rows += request.rows;
  times_.add(rows, to_us(now() - done.sent));
  auto waited = waited_in(y, x.queue);
  y.outcomes.reserve(done.requests.size());
  for (size_t i = 0; i < done.requests.size(); ++i) {
    auto& request = done.requests[i];
    y.outcomes.push_back(
      outcome_of(request, ec::ok, to_us(done.sent - request.arrived) + waited));
    y.outcomes.back().outputs = std::move(x.outputs[i]);
    auto able = std::max(done.able_since, request.arrived);
    y.outcomes.back().gathered =
      to_us(std::max(0ns, nanoseconds{done.sent - able}));
  }
  self_->send(gateway_, std::move(y));
}

bool router_state::is_last_attempt(const queued_request& x) const {
  return x.attempts >= max_attempts || x.once
         || options_.policy.retry == retry_policy::never;
}

void router_state::fail_batch(flight& done, batch_done& x) {
  auto status = x.status == ec::ok ? ec::internal : x.status;
  auto alone = done.requests.size() == 1;
  auto y = results_of(done, x);
  auto waited = waited_in(y, x.queue);
  std::vector<queued_request> again;
  for (auto& r : done.requests) {
    if (r.settled)
      continue;
    if (alone || is_last_attempt(r)) {
      y.outcomes.push_back(
        outcome_of(r, status, to_us(done.sent - r.arrived) + waited));
      y.outcomes.back().text = x.text;
    } else { // one of them may be to blame
      r.alone = true;
      r.vain.push_back(
        {stays_of(done), "a batch of several failed: " + x.text});
      again.push_back(std::move(r));
    }
  }
  try_again(std::move(again), took_long(done));
  if (!y.outcomes.empty())
    self_->send(gateway_, std::move(y));
}

/// Splits a batch with results too large for one message between nodes. The
/// requests run again in smaller batches, and later batches are limited to the
/// size of inputs whose results fit. Result size is taken to be proportional to
/// input size.
void router_state::split_batch(flight& done, batch_done& x) {
  batch_extent inputs;
  for (auto& r : done.requests)
    inputs.add(r.extent());
  auto fits = inputs.share_of_message() / std::max(2., x.share_of_message);
  if (fits < queue_->most_share()) {
    queue_->limit_share(fits);
    log_event(log_level::warning, "router", "batches_limited",
              {{"model", options_.model},
               {"requests", done.requests.size()},
               {"reason", x.text}});
  }
  for (auto& r : done.requests)
    if (!r.settled
        && (r.once || options_.policy.retry == retry_policy::never)) {
      r.settled = true;
      settle_as(r, ec::unavailable,
                "ran with others in a batch whose results do not fit into one"
                " message, and must not be run twice; smaller batches follow");
    }
  take_back(done);
}

/// Whether a batch was there for far longer than batches are of late: something
/// in it may hang.
bool router_state::took_long(const flight& x) const {
  constexpr microseconds at_least = 100ms; // less holds nobody up
  return to_us(now() - x.since) > std::max(at_least, 4 * execution_);
}

/// Those that others had to wait for already let them go first.
void router_state::try_again(std::vector<queued_request> xs, bool behind) {
  for (auto& x : xs) // for its client, should that be all that comes of it
    self_->send(gateway_, track_of(x, nullptr));
  if (behind)
    for (auto& x : xs)
      queue_->put_behind(std::move(x));
  else // from the last one, so that the first is in front again
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
      x.alone = true; // one of them may be to blame
    again.push_back(std::move(x));
  }
  try_again(std::move(again), how == loss::over && took_long(lost));
}

void router_state::give_up(queued_request& x, const std::string& why) {
  if (x.attempts < max_attempts)
    return settle_as(x, ec::unavailable,
                     why
                       + "; it may have run this request, which must not be run"
                         " twice");
  auto crashed = x.crashes == max_attempts;
  settle_as(x, x.suspect == max_attempts ? ec::poison : ec::unavailable,
            why
              + "; this request, which had failed before, is not tried again");
  if (crashed)
    log_event(log_level::error, "router", "poison",
              {{"model", options_.model}, {"sha256", poisons_.add(x.inputs)}});
}

std::vector<stay> router_state::stays_of(const flight& x) const {
  auto out = x.passed;
  out.push_back({x.replica_name, to_us(now() - x.since)});
  return out;
}

request_track router_state::track_of(const queued_request& x,
                                     const flight* in) const {
  auto given = in == nullptr ? now() : in->sent;
  return {x.key, x.attempts, to_us(given - x.arrived), x.vain,
          in == nullptr ? std::vector<stay>{} : stays_of(*in)};
}

track_list router_state::on_get_tracks(const get_tracks& x) const {
  track_list out;
  std::set<uint64_t> given;
  for (auto key : x.keys)
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

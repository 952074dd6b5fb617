// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/predict/queueing.hpp"

#include <algorithm>

namespace millrace {

namespace {

/// One step of Erlang's first formula: the probability of loss with `servers`
/// servers by that with one server less.
double next_loss(double offered, double lost, uint64_t servers) {
  return offered * lost / (static_cast<double>(servers) + offered * lost);
}

/// The probability of loss without a queue: Erlang's first formula.
double erlang_b(double offered, uint64_t servers) {
  double out = 1;
  for (uint64_t k = 1; k <= servers; ++k)
    out = next_loss(offered, out, k);
  return out;
}

/// The probability of waiting by that of loss without a queue; load below 1.
double waiting_probability(double load, double lost) {
  return lost / (1 - load * (1 - lost));
}

/// Mean delay by erlang_c or allen_cunneen, by the probability of loss without
/// a queue; load below 1.
double delay_by_loss(const queueing_station& x, delay_formula by, double lost) {
  auto servers = static_cast<double>(x.servers);
  auto wait = waiting_probability(x.offered() / servers, lost)
              / (servers / x.service - x.arrivals);
  if (by == delay_formula::allen_cunneen)
    wait *= (x.arrival_cv * x.arrival_cv + x.service_cv * x.service_cv) / 2;
  return wait + x.service;
}

} // namespace

double erlang_c(double offered, uint64_t servers) {
  auto load = offered / static_cast<double>(servers);
  if (load >= 1)
    return 1;
  return waiting_probability(load, erlang_b(offered, servers));
}

/// P(wait) = P_0 a^c / (c! (1 - load)), solved for P_0 with a^c / c! built up
/// term by term.
double empty_probability(double offered, uint64_t servers) {
  auto load = offered / static_cast<double>(servers);
  if (load >= 1)
    return 0;
  double term = 1, sum = 1; // a^k / k!
  for (uint64_t k = 1; k < servers; ++k) {
    term *= offered / static_cast<double>(k);
    sum += term;
  }
  term *= offered / static_cast<double>(servers);
  return 1 / (sum + term / (1 - load));
}

double mean_delay(const queueing_station& x, delay_formula by) {
  auto servers = static_cast<double>(x.servers);
  if (x.arrivals <= 0 || x.service <= 0)
    return x.service;
  if (x.offered() >= servers)
    return std::max(x.saturated,
                    static_cast<double>(x.waiting) * x.service / servers
                      + x.service);
  auto rate = 1 / x.service;
  if (by == delay_formula::printed)
    return empty_probability(x.offered(), x.servers) * x.arrivals
             / (servers * rate * (rate - x.arrivals / servers))
           + x.service;
  return delay_by_loss(x, by, erlang_b(x.offered(), x.servers));
}

uint64_t servers_for(queueing_station x, delay_formula by, double target,
                     uint64_t most) {
  most = std::max<uint64_t>(1, most);
  auto least = static_cast<uint64_t>(x.offered()) + 1; // it has capacity then
  if (target < x.service)
    return most; // no number of servers suffices
  auto plain = by != delay_formula::printed && x.arrivals > 0 && x.service > 0;
  auto lost = plain ? erlang_b(x.offered(), least) : 0;
  for (x.servers = least; x.servers < most; ++x.servers) {
    if ((plain ? delay_by_loss(x, by, lost) : mean_delay(x, by)) <= target)
      return x.servers;
    lost = next_loss(x.offered(), lost, x.servers + 1);
  }
  return most;
}

} // namespace millrace

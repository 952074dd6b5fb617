// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/predict/queueing.hpp"

#include <algorithm>

namespace millrace {

namespace {

/// One step of Erlang's first formula: the loss probability of `servers`
/// servers from that of one server less.
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

/// The probability of waiting, from the probability of loss without a queue;
/// load below 1.
double waiting_probability(double load, double lost) {
  return lost / (1 - load * (1 - lost));
}

/// Mean delay by erlang_c or allen_cunneen, from the probability of loss
/// without a queue; load below 1.
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

double mean_delay(const queueing_station& station, delay_formula by) {
  auto servers = static_cast<double>(station.servers);
  if (station.arrivals <= 0 || station.service <= 0)
    return station.service;
  if (station.offered() >= servers)
    return std::max(station.saturated, static_cast<double>(station.waiting)
                                           * station.service / servers
                                         + station.service);
  auto rate = 1 / station.service;
  if (by == delay_formula::printed)
    return empty_probability(station.offered(), station.servers)
             * station.arrivals
             / (servers * rate * (rate - station.arrivals / servers))
           + station.service;
  return delay_by_loss(station, by,
                       erlang_b(station.offered(), station.servers));
}

uint64_t servers_for(queueing_station station, delay_formula by, double target,
                     uint64_t most) {
  most = std::max<uint64_t>(1, most);
  auto least = static_cast<uint64_t>(station.offered()) + 1; // load below 1
  if (target < station.service)
    return most; // no number of servers suffices
  auto plain =
    by != delay_formula::printed && station.arrivals > 0 && station.service > 0;
  auto lost = plain ? erlang_b(station.offered(), least) : 0;
  for (station.servers = least; station.servers < most; ++station.servers) {
    if ((plain ? delay_by_loss(station, by, lost) : mean_delay(station, by))
        <= target)
      return station.servers;
    lost = next_loss(station.offered(), lost, station.servers + 1);
  }
  return most;
}

} // namespace millrace

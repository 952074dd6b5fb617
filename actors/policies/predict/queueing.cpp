// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/predict/queueing.hpp"

#include <algorithm>

namespace millrace {

namespace {

/// The probability of loss without a queue: Erlang's first formula.
double erlang_b(double offered, uint64_t servers) {
  double out = 1;
  for (uint64_t k = 1; k <= servers; ++k)
    out = offered * out / (static_cast<double>(k) + offered * out);
  return out;
}

} // namespace

double erlang_c(double offered, uint64_t servers) {
  auto load = offered / static_cast<double>(servers);
  if (load >= 1)
    return 1;
  auto lost = erlang_b(offered, servers);
  return lost / (1 - load * (1 - lost));
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
  auto wait = erlang_c(x.offered(), x.servers) / (servers * rate - x.arrivals);
  if (by == delay_formula::allen_cunneen)
    wait *= (x.arrival_cv * x.arrival_cv + x.service_cv * x.service_cv) / 2;
  return wait + x.service;
}

namespace {

/// Mean delay with so many servers, of which all but `lost` of the arrivals
/// would find one free if none waited (Erlang B).
double delay_with(const queueing_station& x, delay_formula by, double lost) {
  auto servers = static_cast<double>(x.servers);
  auto load = x.offered() / servers;
  auto waits = lost / (1 - load * (1 - lost));
  auto wait = waits / (servers / x.service - x.arrivals);
  if (by == delay_formula::allen_cunneen)
    wait *= (x.arrival_cv * x.arrival_cv + x.service_cv * x.service_cv) / 2;
  return wait + x.service;
}

} // namespace

uint64_t servers_for(queueing_station x, delay_formula by, double target,
                     uint64_t most) {
  most = std::max<uint64_t>(1, most);
  auto least = static_cast<uint64_t>(x.offered()) + 1; // it has capacity then
  if (target < x.service)
    return most; // no number does
  auto plain = by != delay_formula::printed && x.arrivals > 0 && x.service > 0;
  auto lost = plain ? erlang_b(x.offered(), least) : 0;
  for (x.servers = least; x.servers < most; ++x.servers) {
    if ((plain ? delay_with(x, by, lost) : mean_delay(x, by)) <= target)
      return x.servers;
    auto next = static_cast<double>(x.servers + 1);
    lost = x.offered() * lost / (next + x.offered() * lost);
  }
  return most;
}

} // namespace millrace

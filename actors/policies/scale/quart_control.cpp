// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/quart_control.hpp"

#include <algorithm>
#include <numeric>

namespace millrace {

namespace {

constexpr double integral_max = 10;

/// Requests per second that the wanted replicas can serve.
double capacity_of(const quart_stage& x) {
  return static_cast<double>(x.wanted) / x.station.service;
}

uint64_t sum_of(const std::vector<quart_stage>& xs) {
  return std::accumulate(xs.begin(), xs.end(), uint64_t{0},
                         [](uint64_t sum, auto& x) { return sum + x.wanted; });
}

/// Raises the stages to these counts, one replica at a time, up to the limit of
/// the sum. `less(x, y)`: stage x comes before y.
template <class Less>
void raise(std::vector<quart_stage>& stages,
           const std::vector<uint64_t>& counts, uint64_t sum_max, Less less) {
  auto left =
    sum_max == 0 ? UINT64_MAX : sum_max - std::min(sum_max, sum_of(stages));
  while (left > 0) {
    quart_stage* next = nullptr;
    for (size_t i = 0; i < stages.size(); ++i)
      if (stages[i].wanted < counts[i]
          && (next == nullptr || less(stages[i], *next)))
        next = &stages[i];
    if (next == nullptr)
      return;
    ++next->wanted;
    --left;
  }
}

} // namespace

double pid_step(const pid_gains& gains, pid_state& state, double error,
                double seconds, bool frozen) {
  if (!frozen)
    state.integral =
      std::clamp(state.integral + error * seconds, -integral_max, integral_max);
  auto slope = seconds > 0 ? (error - state.error) / seconds : 0;
  state.error = error;
  return gains.proportional * error + gains.integral * state.integral
         + gains.derivative * slope;
}

void size_jointly(std::vector<quart_stage>& stages,
                  const sizing_limits& limits) {
  double backlog = 0;
  for (auto& x : stages)
    if (x.congested)
      backlog = std::max(backlog, static_cast<double>(x.station.waiting));
  std::vector<uint64_t> counts;
  auto behind = false;
  for (auto& x : stages) {
    behind = behind || x.congested;
    auto count = x.wanted;
    if (behind) {
      auto station = x.station;
      station.arrivals += backlog / limits.drain;
      auto enough =
        servers_for(station, limits.formula, x.target, limits.each_max);
      if (x.congested && enough <= x.count)
        enough = x.may_step ? x.count + x.step : x.count;
      count = std::max(count, std::min(enough, limits.each_max));
    }
    counts.push_back(count);
  }
  raise(stages, counts, limits.sum_max,
        [](auto& x, auto& y) { return capacity_of(x) < capacity_of(y); });
}

void size_by_error(std::vector<quart_stage>& stages,
                   const sizing_limits& limits) {
  std::vector<uint64_t> counts;
  for (auto& x : stages)
    counts.push_back(x.congested ? std::max(
                       x.wanted, std::min(x.ready + x.step, limits.each_max))
                                 : x.wanted);
  raise(stages, counts, limits.sum_max,
        [](auto& x, auto& y) { return x.error > y.error; });
}

double smoothed_count(const std::vector<quart_stage>& stages, size_t i,
                      double cv) {
  double sum = 0, neighbours = 0;
  for (auto k : {i - 1, i + 1})
    if (k < stages.size()) { // i - 1 wraps at 0
      sum += static_cast<double>(stages[k].wanted);
      ++neighbours;
    }
  auto own = static_cast<double>(stages[i].wanted);
  auto beta = cv / (1 + cv);
  return neighbours == 0 ? own : beta * own + (1 - beta) * sum / neighbours;
}

} // namespace millrace

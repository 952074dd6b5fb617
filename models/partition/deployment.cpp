// SPDX-License-Identifier: Apache-2.0
#include "models/partition/deployment.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace millrace {

namespace {

/// Number of answers that a replica of this class has given until `at`.
double answers(const replica_class& x, double at) {
  if (x.count == 0 || at < x.first)
    return 0;
  return std::floor((at - x.first) / x.period) + 1;
}

} // namespace

double mean_response(std::span<const replica_class> replicas,
                     uint64_t requests) {
  auto wanted = static_cast<double>(requests);
  auto late = std::numeric_limits<double>::infinity();
  for (auto& x : replicas)
    if (x.count > 0)
      late = std::min(late, x.first + x.period * wanted);
  if (std::isinf(late))
    return late;
  auto enough = [&](double at) {
    double all = 0;
    for (auto& x : replicas)
      all += static_cast<double>(x.count) * answers(x, at);
    return all >= wanted;
  };
  double early = 0;
  constexpr int halvings = 50; // The remaining error is that of rounding.
  for (int i = 0; i < halvings; ++i) {
    auto middle = (early + late) / 2;
    (enough(middle) ? late : early) = middle;
  }
  double sum = 0, given = 0;
  for (auto& x : replicas) {
    auto n = static_cast<double>(x.count), each = answers(x, early);
    given += n * each;
    sum += n * each * (x.first + x.period * (each - 1) / 2);
  }
  return (sum + (wanted - given) * late) / wanted;
}

deployment best_deployment(const partition_planner& plans,
                           const scale_up& demand) {
  auto& whole = plans.plans_of(1).front();
  deployment best;
  best.mean_response = std::numeric_limits<double>::infinity();
  auto primed = std::min(demand.primed, demand.devices);
  auto others = demand.devices - primed;
  auto full_after = [&](double cold, uint64_t count) {
    return replica_class{count, cold + whole.inference, whole.period};
  };
  auto consider = [&](const partition* plan) {
    deployment out;
    out.primed = primed;
    out.plan = plan;
    out.groups = plan ? others / plan->parts() : 0;
    out.full = plan ? others % plan->parts() : others;
    std::array<replica_class, 3> all{full_after(demand.primed_cold, out.primed),
                                     full_after(whole.cold, out.full)};
    if (plan)
      all[2] = {out.groups, plan->cold + plan->inference, plan->period};
    out.mean_response = mean_response(all, demand.requests);
    if (out.mean_response < best.mean_response)
      best = out;
  };
  consider(nullptr);
  auto most = std::min<uint64_t>(plans.max_parts(), others);
  for (size_t parts = 2; parts <= most; ++parts)
    for (auto& plan : plans.plans_of(parts))
      consider(&plan);
  return best;
}

} // namespace millrace

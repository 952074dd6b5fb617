// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/utilisation.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/units.hpp"

namespace millrace {

namespace {

/// Copies of a model that answer requests.
uint64_t copies_ready(const model_load& x) {
  uint64_t out = 0;
  for (auto& g : x.groups)
    if (g.group.extends.empty())
      out = std::max(out, g.ready);
  return out;
}

std::string percent(double x) {
  return format_number(std::round(100 * x)) + " %";
}

} // namespace

wanted_count utilisation_scaling::wanted(const model_state&,
                                         const model_load& load,
                                         const cluster_snapshot&,
                                         uint64_t now_there) const {
  auto window = static_cast<double>(window_seconds());
  auto requests = mean_rate(load.seconds, window_seconds())
                  + static_cast<double>(load.waiting) / window;
  auto there = static_cast<double>(now_there);
  if (requests <= 0)
    return {0, "no requests in " + format_duration(pace().window)};
  auto ready = static_cast<double>(copies_ready(load));
  if (load.service <= 0 || ready <= 0)
    return {std::max(1.0, there), "no utilisation is measured yet"};
  // Replicas that compute all the time, at most the ready replicas.
  auto busy = std::min(ready, requests * load.service);
  auto text =
    percent(busy / ready) + " busy, target " + percent(options_.target);
  auto wanted = busy / options_.target;
  auto near =
    std::abs(busy / (ready * options_.target) - 1) <= options_.tolerance;
  auto starts = there > ready;
  if (wanted < there && starts)
    return {there, text + ", while a replica starts"};
  return {near && !starts ? there : wanted, text};
}

} // namespace millrace

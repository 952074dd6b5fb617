// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/queue_latency.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/units.hpp"

namespace millrace {

wanted_count queue_latency_scaling::wanted(const model_state&,
                                           const model_load& load,
                                           const cluster_snapshot&,
                                           uint64_t now_there) const {
  auto there = static_cast<double>(now_there);
  auto waits =
    load.waiting > 0 ? std::max(load.wait, to_seconds(load.oldest)) : load.wait;
  auto limit = to_seconds(options_.target);
  auto text =
    "waits of " + format_seconds(waits) + ", target " + format_seconds(limit);
  if (waits > limit)
    return {std::max(1.0, there * waits / limit), text};
  // Replicas that the rate of arrivals keeps busy: lambda / mu of one replica.
  auto needed = mean_rate(load.seconds, window_seconds()) * load.service;
  if (load.rate > 0 && load.service <= 0)
    return {std::max(1.0, there), text + ", of a cost that is not known yet"};
  if (there > needed + options_.spare)
    return {std::ceil(needed + options_.spare),
            text + ", " + format_number(std::round(needed * 100) / 100)
              + " busy"};
  return {there, text};
}

} // namespace millrace

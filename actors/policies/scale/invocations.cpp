// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/invocations.hpp"

#include <algorithm>
#include <cmath>

#include "actors/policies/state/costs.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// A rate for a reason, with one decimal.
std::string rate_text(double x) {
  return format_number(std::round(x * 10) / 10);
}

} // namespace

wanted_count invocations_scaling::wanted(const model_state& model,
                                         const model_load& load,
                                         const cluster_snapshot& in,
                                         uint64_t now_there) const {
  auto rate = mean_rate(load.seconds, window_seconds());
  auto there = static_cast<double>(now_there);
  if (rate <= 0)
    return {0, "no requests in " + format_duration(pace().window)};
  auto target = options_.target;
  if (target <= 0) {
    auto service = load.service;
    if (service <= 0)
      if (auto known = slowest_execution(in.costs.get(), model))
        service = known->value;
    if (service <= 0)
      return {std::max(1.0, there), rate_text(rate)
                                      + " requests/s, of a cost that is not"
                                        " known yet"};
    target = options_.safety / service;
  }
  // current * (rate / current) / target
  auto each = rate_text(rate / std::max(1.0, there));
  return {rate / target,
          each + " requests/s per replica, target " + rate_text(target)};
}

} // namespace millrace

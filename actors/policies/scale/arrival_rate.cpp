// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/arrival_rate.hpp"

#include <algorithm>
#include <cmath>

#include "actors/policies/state/costs.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// Requests a second: a quantile of the counts of the last seconds, or their
/// mean. Nearest rank: the 0.99 quantile of fewer than 100 values is the
/// largest.
double rate_of(const std::vector<double>& seconds, size_t window,
               double quantile) {
  if (quantile == 0 || seconds.empty())
    return mean_rate(seconds, window);
  std::vector<double> xs(
    seconds.begin(),
    seconds.begin() + static_cast<long>(std::min(window, seconds.size())));
  std::sort(xs.begin(), xs.end());
  auto rank = std::ceil(quantile * static_cast<double>(xs.size()));
  return xs[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

} // namespace

wanted_count arrival_rate_scaling::wanted(const model_state& model,
                                          const model_load& load,
                                          const cluster_snapshot& in,
                                          uint64_t now_there) const {
  auto rate = rate_of(load.seconds, window_seconds(), options_.quantile);
  auto service = options_.capacity > 0 ? 1 / options_.capacity : load.service;
  std::string origin;
  if (service <= 0)
    if (auto known = slowest_execution(in.costs.get(), model)) {
      service = known->value;
      origin = " (" + known->origin + ")";
    }
  auto text = format_number(std::round(rate * 10) / 10) + " requests/s";
  if (rate <= 0)
    return {0, "no requests in " + format_duration(pace().window)};
  if (service <= 0)
    return {1, text + ", of a cost that is not known yet"};
  text += " of " + format_seconds(service) + " each" + origin + ", target "
          + format_number(options_.target) + " busy";
  // Eq. 4.12 with its middle row: lambda, mu and both rho are in replicas.
  auto needed = rate * service / options_.target;
  auto there = static_cast<double>(now_there);
  auto keeps =
    needed - options_.lack <= there && there <= needed + options_.spare;
  return {keeps ? there : needed, text};
}

} // namespace millrace

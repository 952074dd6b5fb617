// SPDX-License-Identifier: Apache-2.0
#include "models/device/measured_times.hpp"

#include <algorithm>

namespace millrace {

namespace {

constexpr const char* execute_seconds = "execute_seconds";

/// A dimension of a point, or the default of points without it.
double dimension(const profile_point& x, const char* name, double value) {
  auto i = x.dimensions.find(name);
  return i == x.dimensions.end() ? value : i->second;
}

} // namespace

measured_times::measured_times(const profile& known, const std::string& kind) {
  auto times_of = [&](const profile_point& x) {
    return curve_of(known, execute_seconds, kind, x.dimensions);
  };
  for (auto& x : known.points) {
    if (x.device != kind)
      continue;
    if (x.dimensions.empty())
      for (auto& [name, value] : x.metrics)
        metrics_[name].add(x.batch, value);
    if (!x.metrics.contains(execute_seconds))
      continue;
    auto by_place =
      x.dimensions.contains("share") + x.dimensions.contains("threads");
    if (x.dimensions.size() == 1 && x.dimensions.contains("at_once"))
      at_once_.add(dimension(x, "at_once", 1), times_of(x));
    else if (!x.dimensions.empty()
             && x.dimensions.size() == static_cast<size_t>(by_place))
      execute_[{dimension(x, "share", 0), dimension(x, "threads", 1)}] =
        times_of(x);
  }
  auto alone = curve_of(known, execute_seconds, kind);
  if (!alone.empty())
    at_once_.add(1, std::move(alone));
}

const curve* measured_times::execute(double share, uint32_t threads) const {
  auto i = execute_.find({share, std::max(1u, threads)});
  return i == execute_.end() ? nullptr : &i->second;
}

double measured_times::metric(std::string_view name, double rows) const {
  auto i = metrics_.find(name);
  return i == metrics_.end() ? 0 : i->second.at(rows);
}

} // namespace millrace

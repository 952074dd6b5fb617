// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "models/backend/backend.hpp"

namespace millrace::confined {

/// A run past its deadline that takes this many times the usual time of its
/// size counts as endless.
inline constexpr int patience = 4;

/// When a run causes its process to be ended.
struct run_end {
  timestamp at;
  std::stop_token unwanted;
  timestamp at_unwanted; ///< if `unwanted` is requested
  ec blame;              ///< error code of the process's end in that case

  bool is_over(timestamp now) const {
    return now >= at || (unwanted.stop_requested() && now >= at_unwanted);
  }
};

/// Computes when to end the process of a run. A late or cancelled run delays
/// others; to end the process costs them one load, so the run may take at least
/// that long. `longest` is the limit of any run. Pure.
inline run_end end_of_run(const run_limits& limits, timestamp started,
                          nanoseconds load_cost, nanoseconds longest) {
  auto patient = started + patience * limits.usual;
  auto late = std::max(limits.until, started);
  if (late != far_future)
    late = std::max(limits.until, std::min(patient, late + load_cost));
  late = std::max(late, started + limits.least);
  auto at = std::min(late, started + longest);
  auto unwanted =
    std::max(patient, started + std::max(load_cost, limits.least));
  return {at, limits.unwanted, std::min(at, unwanted),
          limits.of_nobody ? ec::unavailable : ec::deadline_exceeded};
}

} // namespace millrace::confined

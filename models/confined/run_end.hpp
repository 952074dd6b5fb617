// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "models/backend/backend.hpp"

namespace millrace::confined {

/// A run of so many times what one of its size takes has no end, if its
/// deadline has passed.
inline constexpr int patience = 4;

/// When a run's process is ended over it.
struct run_end {
  timestamp at;
  std::stop_token unwanted;
  timestamp at_unwanted; ///< if that is said
  ec blame;              ///< what its process's end is, if it is too late

  bool is_over(timestamp now) const {
    return now >= at || (unwanted.stop_requested() && now >= at_unwanted);
  }
};

/// One that nobody waits for, or that is late, holds up others: what they would
/// wait for the process's next life is the price of its end. `longest` is what
/// any run may take. Pure.
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

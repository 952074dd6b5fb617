// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The entry `due` in the memory of a policy that looks at the load
/// periodically.

#include <algorithm>

#include "actors/policies/scale/scaling_policy.hpp"

namespace millrace {

inline void set_due(std::map<std::string, double>& values, timestamp now,
                    microseconds every) {
  values["due"] = seconds_of(now) + to_seconds(every);
}

/// When a policy with that memory is due; now, where it has not run yet.
inline timestamp due_in(const policy_memory& memory, timestamp now) {
  auto i = memory.values.find("due");
  if (i == memory.values.end())
    return now;
  auto left = std::chrono::duration<double>(i->second - seconds_of(now));
  return now + std::max(0ns, std::chrono::duration_cast<nanoseconds>(left));
}

} // namespace millrace

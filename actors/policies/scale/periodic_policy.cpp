// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/periodic_policy.hpp"

#include <algorithm>

namespace millrace {

timestamp periodic_policy::next_due(const policy_memory& memory,
                                    timestamp now) const {
  auto i = memory.values.find("due");
  if (i == memory.values.end())
    return now;
  auto left = std::chrono::duration<double>(i->second - seconds_of(now));
  return now + std::max(0ns, std::chrono::duration_cast<nanoseconds>(left));
}

void periodic_policy::end_period(const cluster_snapshot& in,
                                 policy_memory& memory, timestamp now) const {
  auto& scope = *in.scopes.at(scope_);
  std::erase_if(memory.values, [&](auto& x) {
    auto slash = x.first.find('/');
    return slash != std::string::npos
           && !std::binary_search(scope.models.begin(), scope.models.end(),
                                  x.first.substr(0, slash));
  });
  memory.values["due"] = seconds_of(now) + to_seconds(scope.settings.every);
}

} // namespace millrace

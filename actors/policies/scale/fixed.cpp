// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/fixed.hpp"

#include "actors/policies/state/configured_groups.hpp"

namespace millrace {

proposal fixed_scaling::propose(const cluster_snapshot& snapshot,
                                policy_memory& memory, random_stream&,
                                timestamp) const {
  proposal out;
  for (auto& model : snapshot.scopes.at(scope_)->models) {
    auto groups = configured_groups(
      cut_by(options_.cuts, *snapshot.models.at(model), snapshot, memory));
    if (!groups) {
      out.refused[model] = groups.failure().text;
      continue;
    }
    out.groups.insert(out.groups.end(), groups->begin(), groups->end());
    out.reasons[model] = "as configured";
  }
  return out;
}

} // namespace millrace

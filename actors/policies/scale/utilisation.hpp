// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/scale/count_policy.hpp"

namespace millrace {

struct utilisation_options {
  double target = 0.6;
  double tolerance = 0.1;
  pace_options pace{};
  MILLRACE_FIELDS(utilisation_options, target, tolerance, pace)
  static constexpr auto notes() {
    return std::array{
      note{"the part of their time that replicas are to compute", 0.01, 1},
      note{"relative distance from the target within which the number of"
           " replicas stays",
           0, 1},
      note{"delays and limits"}};
  }
};

/// Policy `utilisation`: as many replicas as compute for a target part of their
/// time. OpenWhisk's policy on Kubernetes as modified by Flashpoint (table 3.16
/// of the digest: target 60 %; desired = ceil(current * metric / target)).
/// Utilisation is at most 1, so that one step multiplies the ready replicas by
/// at most 1 / target. A starting replica counts as idle, and no replica ends
/// while another starts. Both rules and the tolerance are those of Kubernetes'
/// horizontal pod autoscaler. Waiting requests count as work of the window.
class utilisation_scaling : public count_policy_with<utilisation_options> {
public:
  using count_policy_with::count_policy_with;

protected:
  wanted_count wanted(const model_state& model, const model_load& load,
                      const cluster_snapshot& in,
                      uint64_t now_there) const override;
};

} // namespace millrace

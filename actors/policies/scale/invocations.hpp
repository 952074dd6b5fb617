// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/scale/count_policy.hpp"

namespace millrace {

struct invocations_options {
  double target = 0;
  double safety = 0.5;
  pace_options pace{};
  MILLRACE_FIELDS(invocations_options, target, safety, pace)
  static constexpr auto notes() {
    return std::array{
      note{"requests a second that each replica is to get; 0: the part `safety`"
           " of the requests that one replica can serve",
           0, 1e9},
      note{"with target 0: the part of the requests that one replica can serve,"
           " as measured lately, else as profiled",
           0.01, 1},
      note{"delays and limits"}};
  }
};

/// Policy `invocations`: as many replicas as keep the requests per replica at a
/// target. SageMaker's policy as re-implemented by Flashpoint (table 3.16 of
/// the digest: the metric is the mean of requests served per replica; desired =
/// ceil(current * metric / target)). The thesis gives no target. The default is
/// half of the capacity of a replica, after the safety factor 2 that the thesis
/// cites. Without a target and a known cost, the policy keeps the present
/// replicas.
class invocations_scaling : public count_policy_with<invocations_options> {
public:
  using count_policy_with::count_policy_with;

protected:
  wanted_count wanted(const model_state& model, const model_load& load,
                      const cluster_snapshot& in,
                      uint64_t now_there) const override;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/scale/count_policy.hpp"

namespace millrace {

struct queue_latency_options {
  microseconds target{7'000'000};
  double spare = 1;
  pace_options pace{};
  MILLRACE_FIELDS(queue_latency_options, target, spare, pace)
  static constexpr auto notes() {
    return std::array{
      note{"how long requests may wait for a replica, on average", 1e-3, 600},
      note{"replicas that there may be beyond those that serve the rate of"
           " arrivals before some end (rho_H)",
           0, 1000},
      note{"delays and limits"}};
  }
};

/// Policy `queue_latency`: more replicas when requests wait longer than the
/// target, in proportion to the excess; fewer when the service rate of the
/// present replicas exceeds the rate of arrivals by more than `spare` replicas.
/// TorchServe's policy on Kubernetes in the version of Flashpoint (table 3.16
/// of the digest: target 7 s; desired = current * metric / target). The second
/// part is the middle row of eq. 4.12: the printed rows contradict each other,
/// and without this row all replicas would end while the queue is empty. A
/// waiting request counts with its age.
class queue_latency_scaling : public count_policy_with<queue_latency_options> {
public:
  using count_policy_with::count_policy_with;

protected:
  wanted_count wanted(const model_state& model, const model_load& load,
                      const cluster_snapshot& in,
                      uint64_t now_there) const override;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/scale/count_policy.hpp"

namespace millrace {

struct arrival_rate_options {
  double target = 0.7;
  double quantile = 0.99;
  double capacity = 0;
  double lack = 0;
  double spare = 0;
  pace_options pace{};
  MILLRACE_FIELDS(arrival_rate_options, target, quantile, capacity, lack, spare,
                  pace)
  static constexpr auto notes() {
    return std::array{
      note{"the part of their time that replicas are to be busy", 0.01, 1},
      note{"of the arrivals in each second of the window, the quantile that"
           " replicas are counted for; 0: the mean",
           0, 1},
      note{"requests a second that one replica serves when it is busy all the"
           " time; 0: as measured lately, else as profiled",
           0, 1e9},
      note{"replicas that may be missing before some are started (rho_L)", 0,
           1000},
      note{"replicas that there may be too many before some end (rho_H)", 0,
           1000},
      note{"delays and limits"}};
  }
};

/// Policy `arrival_rate`: as many replicas as serve the rate of arrivals,
/// whatever the present number. Atoll's policy in the version of Flashpoint
/// (section 8.1: p99 of the arrival rate times the mean execution time); the
/// thesis has no target (that is, 1). Before the first executed request, and
/// without `capacity`, the time comes from the cost book, for its slowest kind
/// of device. Without an entry there, one replica serves any rate.
class arrival_rate_scaling : public count_policy_with<arrival_rate_options> {
public:
  using count_policy_with::count_policy_with;

protected:
  wanted_count wanted(const model_state& model, const model_load& load,
                      const cluster_snapshot& in,
                      uint64_t now_there) const override;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "actors/policies/parts/start_plan.hpp"
#include "actors/policies/scale/cut_rule.hpp"
#include "actors/policies/scale/periodic_policy.hpp"

namespace millrace {

/// Delays and limits of every policy that follows the load: one wrapper around
/// all such policies, as Ray Serve's AutoscalingContext.
struct pace_options {
  microseconds up_after{1'000'000};
  microseconds down_after{0};
  microseconds cooldown{5'000'000};
  microseconds window{10'000'000};
  microseconds idle{60'000'000};
  cut_rule cuts = cut_rule::bytes;
  plan_options plan{};
  MILLRACE_FIELDS(pace_options, up_after, down_after, cooldown, window, idle,
                  cuts, plan)
  static constexpr auto notes() {
    return std::array{
      note{"time for which more replicas must be wanted before they start", 0,
           3600},
      note{"time for which fewer replicas must be wanted before some end", 0,
           86'400},
      note{"from a change in one direction to a change in the other", 0,
           86'400},
      note{"the time that the policy looks back; whole seconds, at most 60", 1,
           60},
      note{"with min 0: time without a request, as reported by every gateway,"
           " after which the last replica ends",
           0, 1e6},
      note{about_cut_rule},
      note{"partition plans"}};
  }
};

/// The result of a policy for one model.
struct wanted_count {
  double replicas = 0; ///< before limits; rounded up
  std::string reason;
};

/// The mean of the first `n` values; 0 for none.
double mean_rate(const std::vector<double>& seconds, size_t n);

/// Base of the policies that propose the configured groups of each model with
/// another count. The count is a function of the load of that model, within its
/// `min` and `max`, with the delays of the options. With `scaling.parts: auto`
/// the groups come from parts/growing_groups.hpp, and the count is in devices.
///
/// Remembers, by model: `count` (the last proposal), `up_since` and
/// `down_since` (seconds), `changed`, `direction`; and `due` for the scope.
class count_policy : public periodic_policy {
public:
  count_policy(std::string scope, pace_options pace)
    : periodic_policy(std::move(scope)),
      pace_(pace) {}

  proposal propose(const cluster_snapshot& snapshot, policy_memory& memory,
                   random_stream& random, timestamp now) const final;

protected:
  /// Number of replicas that the load needs; `now_there` replicas run or start.
  virtual wanted_count wanted(const model_state& model, const model_load& load,
                              const cluster_snapshot& in,
                              uint64_t now_there) const = 0;

  const pace_options& pace() const { return pace_; }
  size_t window_seconds() const {
    return static_cast<size_t>(to_seconds(pace_.window));
  }

private:
  /// Errors: bad_request when the model cannot be cut as its settings define.
  result<std::vector<replica_group>>
  groups_of(const model_state& model, const model_load& load,
            const cluster_snapshot& in, uint64_t count, policy_memory& memory,
            std::string& reason) const;
  uint64_t decide(const model_state& model, const model_load& load,
                  const cluster_snapshot& in, policy_memory& memory,
                  timestamp now, std::string& reason) const;
  std::string what_holds(double wanted_for, microseconds delay,
                         bool covered) const;
  bool is_idle(const model_load& load, const cluster_snapshot& in) const;

  pace_options pace_;
  mutable start_planners planners_;
};

/// A count policy with its own options, which include `pace`.
template <class Options>
class count_policy_with : public count_policy {
public:
  count_policy_with(std::string scope, const Options& options)
    : count_policy(std::move(scope), options.pace),
      options_(options) {}

protected:
  const Options options_;
};

} // namespace millrace

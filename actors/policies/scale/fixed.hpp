// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/scale/cut_rule.hpp"
#include "actors/policies/scale/scaling_policy.hpp"

namespace millrace {

struct fixed_options {
  cut_rule cuts = cut_rule::bytes;
  MILLRACE_FIELDS(fixed_options, cuts)
  static constexpr auto notes() { return std::array{note{about_cut_rule}}; }
};

/// Policy `fixed`: the groups that the settings describe, whatever the load.
class fixed_scaling : public scaling_policy {
public:
  fixed_scaling(std::string scope, const fixed_options& options)
    : scope_(std::move(scope)),
      options_(options) {}

  proposal propose(const cluster_snapshot& snapshot, policy_memory& memory,
                   random_stream& random, timestamp now) const override;
  /// With cuts by time, profiles are checked once a second.
  timestamp next_due(const policy_memory&, timestamp now) const override {
    return options_.cuts == cut_rule::time ? now + 1s : far_future;
  }

private:
  std::string scope_;
  fixed_options options_;
};

} // namespace millrace

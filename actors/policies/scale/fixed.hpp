// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/scale/scaling_policy.hpp"

namespace millrace {

/// Has no options.
struct fixed_options {
  MILLRACE_FIELDS(fixed_options)
  static constexpr auto notes() { return std::array<note, 0>{}; }
};

/// Policy `fixed`: the groups that the settings describe, whatever the load.
class fixed_scaling : public scaling_policy {
public:
  fixed_scaling(std::string scope, const fixed_options&)
    : scope_(std::move(scope)) {}

  proposal propose(const cluster_snapshot& snapshot, policy_memory& memory,
                   random_stream& random, timestamp now) const override;
  timestamp next_due(const policy_memory&, timestamp) const override {
    return far_future;
  }

private:
  std::string scope_;
};

} // namespace millrace

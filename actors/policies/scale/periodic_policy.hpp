// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "actors/policies/scale/scaling_policy.hpp"

namespace millrace {

/// Base of the policies that run once per `every` of the scope. Their memory
/// has entries "MODEL/NAME", and `due` in seconds.
class periodic_policy : public scaling_policy {
public:
  explicit periodic_policy(std::string scope) : scope_(std::move(scope)) {}

  /// Now, if the policy has not run yet.
  timestamp next_due(const policy_memory& memory, timestamp now) const final;

protected:
  const std::string& scope() const { return scope_; }

  /// At the end of a proposal: sets `due`, and forgets models that the scope
  /// no longer has.
  void end_period(const cluster_snapshot& in, policy_memory& memory,
                  timestamp now) const;

private:
  std::string scope_;
};

} // namespace millrace

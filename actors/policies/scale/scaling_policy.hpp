// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/random.hpp"
#include "transport/messages/decision.hpp"
#include "transport/messages/snapshot.hpp"

namespace millrace {

/// Proposes replica groups for one scope. Stateless: all state of a policy is
/// in `memory`. Same arguments, same proposal.
class scaling_policy {
public:
  virtual ~scaling_policy() = default;

  /// The groups of all models of the scope; the caller fills in scope, epoch
  /// and snapshot number.
  virtual proposal propose(const cluster_snapshot& snapshot,
                           policy_memory& memory, random_stream& random,
                           timestamp now) const = 0;

  /// When to run the policy again, if neither the intent nor a bundle changes
  /// before; far_future: never.
  virtual timestamp next_due(const policy_memory& memory,
                             timestamp now) const = 0;
};

/// A point in time as memories store it.
inline double seconds_of(timestamp time) {
  return to_seconds(time.time_since_epoch());
}

} // namespace millrace

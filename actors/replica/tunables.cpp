// SPDX-License-Identifier: Apache-2.0

/// \file
/// Parameters of a REPLICA that change while it serves.

#include <algorithm>

#include "actors/replica/replica_state.hpp"

namespace millrace {

replica_limits replica_state::limits() const {
  auto& what = options_.what;
  auto at_once = what.tuned.concurrency == 0
                   ? options_.lanes
                   : static_cast<uint32_t>(what.tuned.concurrency);
  return {std::min(what.tuned.batch, what.batch_max), what.batch_max,
          at_once + static_cast<uint32_t>(what.policy.overlap),
          what.tuned.weight};
}

/// Passes concurrency and threads on to the executor.
void replica_state::tune_stage_if(bool changed) {
  auto& tuned = options_.what.tuned;
  if (changed)
    self_->send(options_.executor,
                tune_stage{instance_, static_cast<uint32_t>(tuned.concurrency),
                           static_cast<uint32_t>(tuned.threads)});
}

/// A replica that is loaded for fewer rows, or on another device, is replaced
/// instead.
void replica_state::on_adjust(const adjust& x) {
  auto& what = options_.what;
  what.tuned = x.tuned;
  what.policy = x.policy;
  what.tenants = x.tenants;
  what.group = x.group;
  tune_stage_if(ready_);
  for (auto& [node, gateway] : gateways_)
    if (gateway.handle && !gateway.told_to_stop)
      self_->send(
        caf::actor_cast<gateway_actor>(gateway.handle),
        replica_tuned{caf::actor_cast<caf::strong_actor_ptr>(self_->ctrl()),
                      limits()});
  report_condition();
}

} // namespace millrace

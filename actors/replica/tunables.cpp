// SPDX-License-Identifier: Apache-2.0

/// \file
/// Parameters of a REPLICA that change while it serves.

#include <algorithm>

#include "actors/replica/replica_state.hpp"

namespace millrace {

/// A credit beyond what the device lets run at once would hold a batch up that
/// another replica could run.
replica_limits replica_state::limits() const {
  auto& what = options_.what;
  auto& sharing = options_.sharing;
  auto at_once = sharing.most_at_once(options_.lanes);
  if (sharing.per_replica > 0)
    at_once = std::min(at_once, sharing.per_replica);
  if (auto limit = what.tuned.concurrency; limit > 0)
    at_once = std::min(at_once, static_cast<uint32_t>(limit));
  return {std::min(what.tuned.batch, what.batch_max), what.tuned.rows_max,
          at_once + static_cast<uint32_t>(what.policy.overlap),
          what.tuned.weight};
}

void replica_state::announce_limits() {
  for (auto& [node, gateway] : gateways_)
    if (gateway.handle && !gateway.told_to_stop)
      self_->send(
        caf::actor_cast<gateway_actor>(gateway.handle),
        replica_tuned{caf::actor_cast<caf::strong_actor_ptr>(self_->ctrl()),
                      limits()});
}

void replica_state::on_share(const share_device& x) {
  options_.sharing = x.sharing;
  announce_limits();
}

/// Passes concurrency and threads on to the executor.
void replica_state::tune() {
  auto& tuned = options_.what.tuned;
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
  if (ready_)
    tune();
  announce_limits();
  report_condition();
}

} // namespace millrace

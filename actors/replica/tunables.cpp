// SPDX-License-Identifier: Apache-2.0

/// \file
/// Parameters of a REPLICA that change while it serves.

#include <algorithm>

#include "actors/replica/replica_state.hpp"

namespace millrace {

/// Credit is limited to the batches that run at once, plus overlap: a batch
/// beyond that would wait here while another replica could run it.
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

void replica_state::on_share(const share_device& request) {
  options_.sharing = request.sharing;
  announce_limits();
}

/// Passes concurrency and threads on to the executor.
void replica_state::tune() {
  auto& tuned = options_.what.tuned;
  self_->send(options_.executor,
              tune_stage{instance_, static_cast<uint32_t>(tuned.concurrency),
                         static_cast<uint32_t>(tuned.threads)});
}

/// A change of the loaded rows or of the device replaces the replica instead.
void replica_state::on_adjust(const adjust& order) {
  auto& what = options_.what;
  what.tuned = order.tuned;
  what.policy = order.policy;
  what.tenants = order.tenants;
  what.group = order.group;
  if (life_ != replica_life::starting && life_ != replica_life::starting_local)
    tune();
  announce_limits();
  report_condition();
}

} // namespace millrace

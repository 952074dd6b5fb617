// SPDX-License-Identifier: Apache-2.0

/// \file
/// Batch limits of a ROUTER's replicas. Replicas of one model can have
/// different limits: each batch is sized for its replica.

#include <algorithm>

#include "actors/router/router_state.hpp"

namespace millrace {

namespace {

uint64_t unlimited_if_0(uint64_t rows) {
  return rows == 0 ? UINT64_MAX : rows;
}

uint64_t rows_max_of(const replica_limits& x) {
  return unlimited_if_0(x.rows_max);
}

} // namespace

void router_state::on_tuned(const replica_tuned& message) {
  auto i =
    message.handle ? replicas_.find(message.handle->id()) : replicas_.end();
  if (i == replicas_.end())
    return;
  auto& r = i->second;
  set_credit(i->first, r,
             r.credit + message.limits.credit - int64_t{r.limits.credit});
  r.limits = message.limits;
  stages_->set_weight(i->first, message.limits.weight);
  learn_limits();
  pump();
}

void router_state::on_policy(const serving_policy& policy) {
  if (policy == options_.policy)
    return;
  auto dispatches_alike = policy.dispatch == options_.policy.dispatch;
  options_.policy = policy;
  queue_->adopt(policy);
  if (!dispatches_alike)
    stages_->adopt(policy.dispatch);
  learn_limits();
  for (auto& [id, r] : replicas_)
    hold_blocked(id, r);
  pump();
}

/// The limits of a batch for this replica. A batch for a part also runs on the
/// later parts, so their limits count as well.
batch_limit router_state::limit_of(const replica& to) const {
  batch_limit out{to.limits.batch, rows_max_of(to.limits),
                  to.is_remote ? wire_limits::batch_share : 1};
  if (to.layers.last < layers_) {
    out.rows = std::min(out.rows, later_.rows);
    out.rows_max = std::min(out.rows_max, later_.rows_max);
  }
  return out;
}

/// Recomputes later_ and largest_ after a change of a replica's limits.
void router_state::learn_limits() {
  later_ = {UINT64_MAX, UINT64_MAX, 1};
  for (auto& [id, r] : replicas_)
    if (r.layers.first > 0 && !r.draining) {
      later_.rows = std::min(later_.rows, r.limits.batch);
      later_.rows_max = std::min(later_.rows_max, rows_max_of(r.limits));
    }
  largest_ = {0, 0, 1};
  for (auto& [id, r] : replicas_)
    if (r.layers.first == 0 && !r.draining) {
      auto limit = limit_of(r);
      largest_.rows = std::max(largest_.rows, limit.rows);
      largest_.rows_max = std::max(largest_.rows_max, limit.rows_max);
    }
  if (largest_.rows_max == 0) { // until a replica announces its limits
    auto& policy = options_.policy;
    largest_ = {policy.batch, unlimited_if_0(policy.batch_max), 1};
  }
}

void router_state::refuse_too_large(queued_request& request) {
  settle_as(request, ec::too_large,
            "the request has " + std::to_string(request.rows)
              + " rows, and the largest batch of a replica of model '"
              + options_.model + "' has " + std::to_string(largest_.rows_max)
              + " (policy.batch_max): split the request");
}

/// The replica for the next batch. Its limit admits at least the smallest
/// queued request.
std::optional<caf::actor_id> router_state::next_replica() const {
  auto out = stages_->next(0);
  auto rows = queue_->rows_min();
  if (!out || rows <= limit_of(replicas_.at(*out)).rows_max)
    return out;
  return stages_->next_of(0, stage_map::nobody, [&](auto id) {
    return rows <= limit_of(replicas_.at(id)).rows_max;
  });
}

} // namespace millrace

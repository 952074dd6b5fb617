// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/random.hpp"
#include "transport/messages/model.hpp"

namespace millrace {

/// Chooses the replica for the next batch among replicas with credit. A choice
/// takes at most logarithmic time.
class dispatcher {
public:
  using replica_id = uint64_t;

  virtual ~dispatcher() = default;

  /// Sets the number of batches that a replica accepts from now on; 0: none.
  virtual void set_credit(replica_id replica, uint32_t credit) = 0;

  /// Removes a replica for good.
  virtual void remove(replica_id replica) = 0;

  /// Returns the replica for the next batch; nothing without credit.
  virtual std::optional<replica_id> next() const = 0;

  /// Records that a replica got the batch. Its credit stays until set_credit().
  virtual void given(replica_id replica) { static_cast<void>(replica); }

  /// Sets the weight of a replica, as in tunables, above 0. Only the weighted
  /// dispatcher uses it.
  virtual void set_weight(replica_id replica, double weight) {
    static_cast<void>(replica);
    static_cast<void>(weight);
  }
};

/// Makes a dispatcher.
///
/// - pull: a replica with the most credit, which has the least work. Ties are
///   broken at random, so that several gateways do not choose the same replica.
/// - round_robin: the replicas with credit in turn.
/// - in_turn: all replicas in turn; the batch waits until the next replica has
///   credit.
std::unique_ptr<dispatcher> make_dispatcher(dispatch_policy policy,
                                            random_stream random);

/// Makes a dispatcher for replicas of unequal weights. Replicas with credit
/// share the batches in proportion to their weights (stride scheduling). A
/// replica without credit accumulates no claim.
std::unique_ptr<dispatcher> make_weighted_dispatcher();

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/random.hpp"
#include "transport/messages/model.hpp"

namespace millrace {

/// Decides which replica takes the next batch: one of those with credit. Costs
/// the same however many there are, but for a logarithm.
class dispatcher {
public:
  using replica_id = uint64_t;

  virtual ~dispatcher() = default;

  /// The batches a replica takes at once from now on; 0: none.
  virtual void set_credit(replica_id x, uint32_t credit) = 0;

  /// It is gone, and is not asked for again.
  virtual void remove(replica_id x) = 0;

  /// Who takes the next batch.
  virtual std::optional<replica_id> next() const = 0;

  /// It was given the batch. Its credit is as before until it is set.
  virtual void given(replica_id x) { static_cast<void>(x); }

  /// As in tunables, above 0. Of effect on the weighted dispatcher alone.
  virtual void set_weight(replica_id x, double weight) {
    static_cast<void>(x);
    static_cast<void>(weight);
  }
};

/// pull: the one with the most credit, which has the least to do; of equals
/// any, by chance: were it the first, several gateways would crowd on it.
/// round_robin: one after the other that has credit. in_turn: one after the
/// other; the batch waits while the next one has no credit.
std::unique_ptr<dispatcher> make_dispatcher(dispatch_policy x,
                                            random_stream random);

/// For replicas of unlike weights: shares the batches among the replicas that
/// have credit in proportion to their weights (stride scheduling). A replica
/// without credit gains no claim meanwhile.
std::unique_ptr<dispatcher> make_weighted_dispatcher();

} // namespace millrace

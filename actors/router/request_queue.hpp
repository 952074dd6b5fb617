// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "models/batching.hpp"
#include "runtime/deadline_queue.hpp"
#include "transport/messages/infer.hpp"
#include "transport/messages/model.hpp"
#include "transport/wire_limits.hpp"

namespace millrace {

/// A request that waits for a replica.
struct queued_request {
  uint64_t key = 0;
  deadline due;
  int32_t priority = 0;
  std::vector<tensor> inputs;
  uint64_t rows = 1;
  timestamp arrived;
  bool once = false;     ///< given to one replica at most
  uint32_t attempts = 0; ///< times it was given to a replica
  uint32_t crashes = 0;  ///< times its model's process ended over it
  uint32_t suspect = 0;  ///< and times that it may have ended more
  bool alone = false;    ///< shares no batch: its last one failed or was lost
  bool settled = false;  ///< nobody waits for it any more
  std::vector<vain_attempt> vain{};

  batch_extent extent() const { return {bytes_of(inputs), inputs.size()}; }
};

/// How much the next batch may have.
struct batch_limit {
  uint64_t rows = 1;     ///< of several requests together
  uint64_t rows_max = 1; ///< of one request by itself
  double share = 1;      ///< of a message between nodes, beside limit_share
};

/// One model's bounded queue: higher priority first, then first come first
/// served; gives out batches and drops what is too late. Pure: time is a
/// parameter.
class request_queue {
public:
  request_queue(serving_policy policy, int batch_axis)
    : policy_(policy),
      batch_axis_(batch_axis) {}

  /// False when the queue is full; the request is then untouched.
  bool push(queued_request& x);

  /// Puts back what was given out and not answered, or waited elsewhere, before
  /// what came later;
  /// past the bound if it must, since it was admitted already.
  void put_back(queued_request x);

  /// The same, behind what waits already.
  void put_behind(queued_request x);

  /// Takes a request out; nothing when it is not here.
  std::optional<queued_request> take_out(uint64_t key);

  /// One that waits; null when it is not here.
  const queued_request* find(uint64_t key) const;

  /// From now on another policy counts, for what waits too.
  void adopt(const serving_policy& policy);

  /// Bounds batches of several requests: the share of a message between nodes
  /// that their inputs take up at most. 1 at first.
  void limit_share(double x) { most_share_ = x; }
  double most_share() const { return most_share_; }

  /// The next batch, or nothing when no waiting request fits or it pays to wait
  /// for more: while fewer rows wait than a batch may have and no request has
  /// waited for batch_delay. Requests of a batch agree in shape. A request of
  /// more rows than `limit.rows`, or of a larger share of a message, travels
  /// alone. Requests of more rows than `limit.rows_max` stay, and later ones
  /// that fit overtake them.
  std::vector<queued_request> take(timestamp now, const batch_limit& limit);

  /// Removes and returns the waiting requests of more than `rows` rows.
  std::vector<queued_request> take_larger(uint64_t rows);

  /// What can no longer be answered in time, if a batch takes `expected`: only
  /// with drop: late.
  std::vector<queued_request> take_late(timestamp now, microseconds expected);

  /// All that waits, in order.
  std::vector<queued_request> take_all();

  /// When take or take_late may have more to give; far_future when only a push
  /// can change that. `batch_rows`: rows of the next batch, at most; 0: no
  /// replica takes one.
  timestamp next_due(uint64_t batch_rows) const;

  size_t size() const { return order_.size(); }
  uint64_t rows() const { return rows_; }

  /// Rows of the smallest waiting request; 0 in an empty queue.
  uint64_t rows_min() const;

  /// When the one that waits longest came; far_future when none does. Looks at
  /// all: for people.
  timestamp oldest() const;

  /// When a full queue will have room again, as a guess for retry_after.
  microseconds time_to_drain(microseconds per_batch, uint64_t batch_rows) const;

private:
  using position = std::pair<int64_t, uint64_t>; // -priority, sequence
  using order = std::map<position, queued_request>;

  void insert(position at, queued_request x);
  queued_request extract(order::iterator x);
  bool ripe(timestamp now, uint64_t batch_rows);

  serving_policy policy_;
  int batch_axis_;
  order order_;
  std::unordered_map<uint64_t, position> index_;
  deadline_queue<uint64_t> deadlines_;
  deadline_queue<uint64_t> ripe_at_; ///< when each has waited long enough
  uint64_t rows_ = 0;
  std::map<uint64_t, size_t> larger_; ///< waiting requests of several rows
  size_t larger_count_ = 0;           ///< all of these
  double most_share_ = 1;
  uint64_t next_ = uint64_t{1} << 32; // those put back count down from below
  uint64_t next_back_ = next_ - 1;
};

} // namespace millrace

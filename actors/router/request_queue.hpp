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
  uint32_t crashes = 0;  ///< attempts that ended the model's process
  uint32_t suspect = 0;  ///< attempts lost with a process or, maybe, a node
  bool alone = false;    ///< shares no batch: its last one failed or was lost
  bool settled = false;  ///< answered or cancelled
  std::vector<vain_attempt> vain{}; ///< failed attempts

  batch_extent extent() const { return {bytes_of(inputs), inputs.size()}; }
};

/// Limits of the next batch.
struct batch_limit {
  uint64_t rows = 1;     ///< rows of several requests together
  uint64_t rows_max = 1; ///< rows of one request that runs alone
  double share = 1;      ///< share of a message between nodes; see limit_share
};

/// One model's bounded queue: by priority, then FIFO. Forms batches and removes
/// late requests. Pure: time is a parameter.
class request_queue {
public:
  request_queue(serving_policy policy, int batch_axis)
    : policy_(policy),
      batch_axis_(batch_axis) {}

  /// False when the queue is full; the request is then untouched.
  bool push(queued_request& request);

  /// Puts an admitted request in front of its priority: one that was taken and
  /// not answered, or one from another router. Ignores the bound.
  void put_back(queued_request request);

  /// Like put_back, but at the end of its priority.
  void put_behind(queued_request request);

  /// Removes and returns a request; none: not queued.
  std::optional<queued_request> take_out(uint64_t key);

  /// A queued request; null: not queued.
  const queued_request* find(uint64_t key) const;

  /// Adopts another policy, for queued requests as well.
  void adopt(const serving_policy& policy);

  /// Bounds batches of several requests: the largest share of a message between
  /// nodes for their inputs. 1 at first.
  void limit_share(double share) { most_share_ = share; }
  double most_share() const { return most_share_; }

  /// The next batch. Empty when no queued request fits, or while the queue has
  /// fewer rows than `limit.rows` and no request has waited for batch_delay.
  /// Requests of a batch agree in shape. A request above `limit.rows`, or above
  /// the share of a message, runs alone. Requests above `limit.rows_max` stay,
  /// and later requests that fit overtake them.
  std::vector<queued_request> take(timestamp now, const batch_limit& limit);

  /// Removes and returns the waiting requests of more than `rows` rows.
  std::vector<queued_request> take_larger(uint64_t rows);

  /// Removes and returns requests that would miss their deadline if a batch
  /// takes `expected`. Only with policy `drop: late`.
  std::vector<queued_request> take_late(timestamp now, microseconds expected);

  /// Removes and returns all requests, in order.
  std::vector<queued_request> take_all();

  /// When take or take_late may return more; far_future: only after a push.
  /// `batch_rows`: most rows of the next batch; 0: no replica has credit.
  timestamp next_due(uint64_t batch_rows) const;

  size_t size() const { return order_.size(); }
  uint64_t rows() const { return rows_; }

  /// Rows of the smallest waiting request; 0 in an empty queue.
  uint64_t rows_min() const;

  /// Arrival of the oldest request; far_future: the queue is empty. Linear
  /// search, for reports to operators.
  timestamp oldest() const;

  /// Estimated time until a full queue has room again, for retry_after.
  microseconds time_to_drain(microseconds per_batch, uint64_t batch_rows) const;

private:
  using position = std::pair<int64_t, uint64_t>; // -priority, sequence
  using order = std::map<position, queued_request>;

  void insert(position at, queued_request request);
  queued_request extract(order::iterator at);
  bool ripe(timestamp now, uint64_t batch_rows);

  serving_policy policy_;
  int batch_axis_;
  order order_;
  std::unordered_map<uint64_t, position> index_;
  deadline_queue<uint64_t> deadlines_;
  deadline_queue<uint64_t> ripe_at_; ///< end of batch_delay of each request
  uint64_t rows_ = 0;
  std::map<uint64_t, size_t> larger_; ///< requests of several rows, by rows
  size_t larger_count_ = 0;           ///< sum over larger_
  double most_share_ = 1;
  uint64_t next_ = uint64_t{1} << 32; // put_back counts down from below
  uint64_t next_back_ = next_ - 1;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "actors/router/poison_list.hpp"
#include "actors/router/request_queue.hpp"
#include "actors/router/router.hpp"
#include "actors/router/stage_map.hpp"
#include "models/batch_times.hpp"

namespace millrace {

/// State of a ROUTER; see router.hpp. Batches of several stages are in
/// pipelines.cpp.
struct router_state {
  const char* name = "router";

  void start(router_actor::stateful_pointer<router_state> self,
             router_options options, gateway_actor gateway,
             std::shared_ptr<metrics> counts);

  void on_route(route& message);
  void on_cancel_request(const cancel_request& message);
  void on_batch_done(batch_done& message);
  void on_batch_accepted(const batch_accepted& message);
  void on_batch_not_found(const batch_not_found& message);
  void on_next_stage_unreachable(const next_stage_unreachable& message);
  void on_batch_ran(const batch_ran& message);
  void on_ready(const replica_ready& message);
  void on_tuned(const replica_tuned& message);
  void on_policy(const serving_policy& policy);
  void on_draining(const replica_draining& message);
  void on_drain_queue(const drain_queue& message);
  void on_get_backlog();
  queue_status on_get_queue() const;
  track_list on_get_tracks(const get_tracks& query) const;
  void on_tick();

private:
  struct replica {
    replica_actor handle;
    std::string name;
    layer_range layers;
    uint64_t promise = 0;
    replica_limits limits{};
    /// Batches that the replica accepts now; below 0: the limit was lowered.
    int64_t credit = 0;
    bool draining = false;
    bool is_remote = false; ///< on another node
    bool confined = false;  ///< no request can crash its node
    // Batches that have run and have no next stage yet.
    uint64_t held = 0;              ///< batches that occupy no credit
    uint64_t held_bytes = 0;        ///< output of these, in bytes
    std::deque<uint64_t> blocked{}; ///< batches that occupy credit, in order
  };

  /// What the current replica of a batch does with it:
  ///
  ///     running ──batch_ran──▶ blocked ──room for output──▶ held
  ///        ▲          └─────────────room for output─────────▲ │
  ///        └──────batch_accepted by the next stage──────────┴─┘
  enum class flight_state : uint8_t {
    running, ///< waits to run, or runs; occupies a credit
    blocked, ///< has run; the output waits for a next stage, with the credit
    held     ///< has run; the output waits, the credit has returned
  };

  /// A batch at a replica; pipelines.cpp describes its way between stages.
  struct flight {
    caf::actor_id replica_id = 0;
    std::string replica_name;
    timestamp sent;  ///< when the first replica got the batch
    timestamp since; ///< when the current replica got the batch
    std::vector<queued_request> requests;
    uint64_t trace = 0; ///< as in run_batch
    // Batches of several stages:
    uint64_t next_layer = 0;   ///< first layer after the current replica's
    caf::actor_id next_id = 0; ///< replica with a credit for it; 0: none yet
    std::string next_name{};
    std::vector<stay> passed{}; ///< earlier stages
    /// Lost or unreachable replica that may have got the batch; empty: none.
    std::string in_doubt{};
    bool dropped = false;   ///< drop_batch was sent to the current replica
    bool orphaned = false;  ///< drop_batch was sent to a former next replica
    timestamp able_since{}; ///< since when a replica had credit for the batch
    flight_state state = flight_state::running;
    uint64_t output = 0; ///< bytes; 0 while running
  };
  /// A link between two stages that the replica `at` reported as broken.
  struct broken_link {
    timestamp due;
    caf::actor_id at, next;
  };
  /// Series of the router, shown until it is retired.
  struct series {
    // Clang 14 has no parenthesised initialisation of aggregates.
    series(gauge length, gauge ready, counter again)
      : queue_length(std::move(length)),
        replicas_ready(std::move(ready)),
        redispatched(std::move(again)) {}

    gauge_share queue_length, replicas_ready;
    counter redispatched;
    std::optional<histogram> batch_size; ///< from the first batch on
  };
  using flight_map = std::unordered_map<uint64_t, flight>;
  using replica_map = std::map<caf::actor_id, replica>;

  timestamp now() const;
  backlog current_backlog() const;
  void on_down(const caf::down_msg& message);
  void lose(replica_map::iterator i, const std::string& reason);
  /// Answers a request without a result.
  void settle_as(queued_request& request, ec status, std::string text,
                 microseconds retry_after = microseconds{0});
  batch_limit limit_of(const replica& to) const;
  void learn_limits();
  std::optional<caf::actor_id> next_replica() const;
  void refuse_too_large(queued_request& request);
  microseconds expected_of_next() const;
  void drop_late(microseconds expected);
  void set_credit(caf::actor_id id, replica& entry, int64_t credit);
  void give_credit(caf::actor_id id, uint32_t credit);
  void pump();
  void hand_back();
  void dispatch(replica& to, std::vector<queued_request> batch);
  uint64_t record_waits(uint64_t id, const std::vector<queued_request>& batch);
  void settle_batch(flight& done, batch_done& message);
  void fail_batch(flight& done, batch_done& message);
  void split_batch(flight& done, batch_done& message);
  requests_completed results_of(flight& done, batch_done& message);
  bool is_last_attempt(const queued_request& request) const;
  std::vector<stay> stays_of(const flight& batch) const;
  request_track track_of(const queued_request& request, const flight* in) const;
  /// Queues the requests of a batch that did not run; costs no attempt.
  void take_back(flight& unused);
  /// Cause of a lost attempt.
  enum class loss {
    chance,     ///< not caused by the request
    maybe_over, ///< the request may have crashed the replica's node
    over        ///< the request ended the model's process
  };
  void give_back(flight& lost, const std::string& why, loss how);
  bool took_long(const flight& batch) const;
  void try_again(std::vector<queued_request> xs, bool behind);
  void give_up(queued_request& request, const std::string& why);
  // pipelines.cpp
  bool hold(replica& by, flight& batch);
  void hold_blocked(caf::actor_id id, replica& by);
  void free_place(flight& batch, uint32_t credit);
  bool passes_on(const flight& batch) const {
    return batch.next_layer < layers_;
  }
  std::optional<passage> begin_passage(uint64_t id, flight& batch);
  std::optional<next_stage> bind(flight& batch);
  void unbind(flight& batch);
  void orphan(uint64_t id, flight& batch);
  bool settle_orphan(uint64_t id);
  void bind_waiting();
  void go_on(uint64_t id, flight& batch);
  void drop_if_useless(uint64_t id, flight& batch);
  void drop(uint64_t id, flight& batch);
  void leave(caf::actor_id gone);
  void reroute(uint64_t id, flight& batch);
  void drop_stranded();
  void resolve_doubts();
  void release_drained();
  bool may_need(const flight& batch, caf::actor_id id) const;
  void report();
  series& shown();
  void arm();

  router_actor::stateful_pointer<router_state> self_ = nullptr;
  gateway_actor gateway_;
  std::shared_ptr<metrics> counts_;
  router_options options_;
  std::optional<request_queue> queue_;
  replica_map replicas_;
  bool available_ = false;  ///< open replicas cover all layers
  bool was_served_ = false; ///< available_ was true once, or options_.waits
  std::optional<stage_map> stages_;
  std::set<caf::actor_id> draining_; ///< replicas not released yet
  flight_map in_flight_;
  /// Batches taken from a next stage, with the replica that must answer
  /// drop_batch before its credit returns.
  std::set<std::pair<uint64_t, caf::actor_id>> orphans_;
  /// Batches without a next stage, by next layer, in FIFO order. Entries of
  /// batches that have moved on are skipped.
  std::map<uint64_t, std::deque<uint64_t>> between_;
  // By due time: when the link counts as broken; when it is tried again.
  std::deque<broken_link> doubts_, severed_;
  poison_list poisons_;
  uint64_t version_ = 0; ///< model version of the poison list
  uint64_t layers_ = 1;  ///< layers of the model
  /// Smallest limits of replicas of later parts: every batch runs on one.
  batch_limit later_;
  /// Largest limits of replicas of layer 0.
  batch_limit largest_;
  uint64_t last_batch_ = 0;
  /// Since when a replica has had credit for the next batch; far_future: none.
  timestamp able_since_ = far_future;
  microseconds execution_{0}; ///< moving average of the execution time
  /// Times from dispatch to result, with the queues of replicas.
  batch_times times_;
  alarm alarm_;
  bool retired_ = false;
  std::optional<series> series_;
};

} // namespace millrace

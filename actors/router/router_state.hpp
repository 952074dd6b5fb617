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

/// State of a ROUTER; see router.hpp. What passes through several stages is in
/// pipelines.cpp.
struct router_state {
  const char* name = "router";

  void start(router_actor::stateful_pointer<router_state> self,
             router_options options, gateway_actor gateway,
             std::shared_ptr<metrics> counts);

  void on_route(route& x);
  void on_cancel_request(const cancel_request& x);
  void on_batch_done(batch_done& x);
  void on_batch_accepted(const batch_accepted& x);
  void on_batch_not_found(const batch_not_found& x);
  void on_next_stage_unreachable(const next_stage_unreachable& x);
  void on_batch_ran(const batch_ran& x);
  void on_ready(const replica_ready& x);
  void on_tuned(const replica_tuned& x);
  void on_policy(const serving_policy& x);
  void on_draining(const replica_draining& x);
  void on_drain_queue(const drain_queue& x);
  void on_get_backlog();
  queue_status on_get_queue() const;
  track_list on_get_tracks(const get_tracks& x) const;
  void on_tick();

private:
  struct replica {
    replica_actor handle;
    std::string name;
    layer_range layers;
    uint64_t promise = 0;
    replica_limits limits{};
    int64_t credit = 0; ///< left; below 0: the limit is lower than before
    bool draining = false;
    bool is_remote = false; ///< on another node
    bool confined = false;  ///< no request can end its node
    // Batches that have run and have no next stage yet.
    uint64_t held = 0;              ///< that occupy no credit
    uint64_t held_bytes = 0;        ///< of their output
    std::deque<uint64_t> blocked{}; ///< that do, in order
  };

  /// A batch that a replica has.
  struct flight {
    caf::actor_id replica_id = 0;
    std::string replica_name;
    timestamp sent;
    timestamp since; ///< who has it has had it
    std::vector<queued_request> requests;
    uint64_t trace = 0; ///< as in run_batch
    // Of one that has layers before it, see pipelines.cpp:
    uint64_t next_layer = 0;   ///< behind those of the replica that has it
    caf::actor_id next_id = 0; ///< who has a credit for it; 0: nobody yet
    std::string next_name{};
    std::vector<stay> passed{}; ///< stages
    /// Who went, or is out of reach of, that it may have gone to, and so be
    /// lost; empty: nobody.
    std::string in_doubt{};
    bool dropped = false;   ///< its replica was told to give it up
    bool orphaned = false;  ///< one that it was to go to was told to drop it
    timestamp able_since{}; ///< a replica had credit for it
    std::optional<uint64_t> output{}; ///< bytes that its replica holds
    bool held = false;                ///< and does so without a credit
  };
  /// What one replica hands on does not reach another, it says.
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
  void on_down(const caf::down_msg& x);
  void lose(replica_map::iterator i, const std::string& reason);
  /// Without a result.
  void settle_as(queued_request& x, ec status, std::string text,
                 microseconds retry_after = microseconds{0});
  batch_limit limit_of(const replica& to) const;
  void learn_limits();
  std::optional<caf::actor_id> next_replica() const;
  void refuse_too_large(queued_request& x);
  microseconds expected_of_next() const;
  void drop_late(microseconds expected);
  void set_credit(caf::actor_id id, replica& x, int64_t credit);
  void give_credit(caf::actor_id id, uint32_t credit);
  void pump();
  void hand_back();
  void dispatch(replica& to, std::vector<queued_request> batch);
  uint64_t record_waits(uint64_t id, const std::vector<queued_request>& batch);
  void settle_batch(flight& done, batch_done& x);
  void fail_batch(flight& done, batch_done& x);
  void split_batch(flight& done, batch_done& x);
  requests_completed results_of(flight& done, batch_done& x);
  bool is_last_attempt(const queued_request& x) const;
  std::vector<stay> stays_of(const flight& x) const;
  request_track track_of(const queued_request& x, const flight* in) const;
  /// What a replica could not run.
  void take_back(flight& unused);
  /// How an attempt came to nothing.
  enum class loss {
    chance,     ///< nothing that the request can have done
    maybe_over, ///< it may have ended the node of its replica
    over        ///< it ended the process of its model
  };
  void give_back(flight& lost, const std::string& why, loss how);
  bool took_long(const flight& x) const;
  void try_again(std::vector<queued_request> xs, bool behind);
  void give_up(queued_request& x, const std::string& why);
  // pipelines.cpp
  bool hold(replica& by, flight& x);
  void hold_blocked(caf::actor_id id, replica& by);
  void free_place(flight& x, uint32_t credit);
  bool passes_on(const flight& x) const { return x.next_layer < layers_; }
  std::optional<passage> begin_passage(uint64_t id, flight& x);
  std::optional<next_stage> bind(flight& x);
  void unbind(flight& x);
  void orphan(uint64_t id, flight& x);
  bool settle_orphan(uint64_t id);
  void bind_waiting();
  void go_on(uint64_t id, flight& x);
  void drop_if_useless(uint64_t id, flight& x);
  void drop(uint64_t id, flight& x);
  void leave(caf::actor_id gone);
  void reroute(uint64_t id, flight& x);
  void drop_stranded();
  void resolve_doubts();
  void release_drained();
  bool may_need(const flight& x, caf::actor_id id) const;
  void report();
  series& shown();
  void arm();

  router_actor::stateful_pointer<router_state> self_ = nullptr;
  gateway_actor gateway_;
  std::shared_ptr<metrics> counts_;
  router_options options_;
  std::optional<request_queue> queue_;
  replica_map replicas_;
  bool available_ = false;  ///< replicas lead through all its layers
  bool was_served_ = false; ///< so at some time
  std::optional<stage_map> stages_;
  std::set<caf::actor_id> draining_; ///< those not released yet
  flight_map in_flight_;
  /// Batches, each with a replica that has been told to drop it, should it
  /// come.
  std::set<std::pair<uint64_t, caf::actor_id>> orphans_;
  /// By their next layer, those that wait for somebody with credit to run it;
  /// among them some that do not any more.
  std::map<uint64_t, std::deque<uint64_t>> between_;
  // By their due: when it counts as broken, and when it is tried again.
  std::deque<broken_link> doubts_, severed_;
  poison_list poisons_;
  uint64_t version_ = 0; ///< of the model, that they are poison to
  uint64_t layers_ = 1;  ///< of the model
  /// The least of replicas of later parts: every batch passes through one.
  batch_limit later_;
  /// The most that any replica for new batches takes.
  batch_limit largest_;
  uint64_t last_batch_ = 0;
  /// Since when a replica has had credit for the next batch; far_future: none.
  timestamp able_since_ = far_future;
  microseconds execution_{0}; ///< of a batch, a moving average
  /// From here and back, with the waits in replicas.
  batch_times times_;
  alarm alarm_;
  bool retired_ = false;
  std::optional<series> series_;
};

} // namespace millrace

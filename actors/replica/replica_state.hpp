// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Life of a REPLICA. Problem: gateways, cache and peers come and go while it
/// loads, serves and drains, and no admitted batch may lose its answer.
/// Approach: each gateway has a gateway_link with its own credit. Batches of
/// several stages are in stages.cpp.
///
///                        finish_elsewhere
///     starting ─────────────────────────────▶ starting_local
///        │ loaded                                  │ loaded
///        ▼               finish_elsewhere          ▼
///      ready ─────────────────────────────────▶ local
///        │ finish                                  │ finish
///        ▼                                         │
///     finishing ◀──────────────────────────────────┘
///        │ no batches, all gateways released it
///        ▼
///      (ends)
///
/// finish leads from each state to finishing, stage_lost from each state to
/// lost. A failed start is reported to the supervisor and ends the actor.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "actors/replica/replica.hpp"

namespace millrace {

enum class replica_life : uint8_t {
  starting,       ///< fetches its bundle, loads, warms up
  starting_local, ///< starts; will serve its own node's gateway only
  ready,          ///< announced to all gateways; runs batches
  local,          ///< accepts batches of its own node's gateway only
  finishing,      ///< accepts none; waits for its batches and for gateways
  lost            ///< finishing, after the executor lost the instance: returns
                  ///< no credit, so that routers send no more batches
};

/// State of a REPLICA; see replica.hpp.
struct replica_state {
  const char* name = "replica";

  replica_state() = default;
  replica_state(const replica_state&) = delete;
  replica_state& operator=(const replica_state&) = delete;
  /// Ends all monitoring: a monitored CAF actor keeps a weak reference to each
  /// observer, and with it the memory of this state.
  ~replica_state();

  void start(replica_actor::stateful_pointer<replica_state> self,
             replica_options options, bus* net);

  void on_run(run_batch& message);
  void on_report(execution_report& message);
  void on_forward_batch(forward_batch& message);
  void on_batch_accepted(const batch_accepted& message);
  void on_drop(const drop_batch& message);
  void on_lost(const stage_lost& message);
  void on_peer_up(const peer_up& message);
  replica_load on_get_load() const;
  void on_adjust(const adjust& order);
  void on_share(const share_device& request);
  void on_finish_elsewhere();
  void on_finish();
  void on_router_released(const router_released& message);
  void on_tick();

private:
  /// A batch that passes through several stages.
  struct journey {
    passage way;
    deadline due;                         ///< latest deadline of its requests
    std::optional<execution_report> held; ///< output, until it is forwarded
    timestamp since;                      ///< when the output was ready
  };

  struct batch {
    uint64_t id = 0;                  ///< the router's
    caf::strong_actor_ptr from;       ///< the router
    uint64_t trace = 0;               ///< as in run_batch
    timestamp arrived;                ///< arrival here; only if traced
    bool dropped = false;             ///< the router gave up the batch
    std::unique_ptr<journey> through; ///< null: one stage only
  };
  using batch_map = std::unordered_map<uint64_t, batch>;

  void load(const fetched& answer);
  void on_loaded(const stage_loaded& message);
  void fail(const caf::error& why, const char* doing);
  uint64_t bytes_of_weights() const;
  void report(replica_condition state, std::string reason = {});
  void report_condition();
  replica_limits limits() const;
  void announce_limits();
  void tune();
  /// A gateway that got an announcement.
  struct gateway_link {
    caf::actor handle;    ///< null: the gateway is down
    uint64_t promise = 0; ///< number of the announcement
    bool told_to_stop = false;
    bool released = false; ///< the gateway will send no more batches
    timestamp gone{};      ///< since when the gateway is down
  };

  bool serves(const std::string& node) const;
  void tell_to_stop(gateway_link& link, bool lost);
  bool is_released() const;
  bool is_ending() const;
  void stop_serving(replica_life next);
  void announce_to(const std::string& node);
  bool tell_cache();
  void on_down(const caf::down_msg& message);
  void end_if_idle();
  bool is_announced_to(const caf::strong_actor_ptr& router) const;
  static size_t requests_of(const batch& begun, const execution_report& result);
  double refuse_too_large(const caf::strong_actor_ptr& receiver,
                          size_t requests, execution_report& result) const;
  /// `share`: as in batch_done; 0: not computed yet.
  void answer(batch_map::iterator entry, execution_report& result,
              double share = 0);
  // stages.cpp
  bool is_last_stage() const;
  bool is_void(uint64_t id, const passage& way) const;
  void begin_journey(batch& begun, passage&& way, deadline due);
  batch_map::iterator find(uint64_t id);
  void end(batch_map::iterator entry);
  void hold(batch_map::iterator entry, execution_report& result);
  void go_on(batch_map::iterator entry);
  bool wants_receipt(uint64_t id, caf::actor_id to);
  void drop(batch_map::iterator entry);
  void cancel(batch_map::iterator entry);
  void on_next_down(const std::string& replica);
  void on_router_down(caf::actor_id router);

  replica_actor::stateful_pointer<replica_state> self_ = nullptr;
  replica_options options_;
  bus* bus_ = nullptr;
  std::shared_ptr<const bundle> content_;
  model_info info_;
  uint64_t instance_ = 0;
  timestamp begun_{};
  microseconds fetch_{0}; ///< time to fetch the bundle and its weights
  std::string from_;      ///< source of the bundle, as in fetched
  bool cache_lost_ = false;
  timestamp ready_at_;
  microseconds first_answer_{-1}; ///< from ready_at_; below 0: none yet
  stage_loaded loaded_;
  tunables loading_as_; ///< parameters of the load_stage request
  replica_life life_ = replica_life::starting;
  bool excused_ = false;                         ///< as in stage_lost
  std::map<std::string, gateway_link> gateways_; ///< by node
  layer_range layers_;
  batch_map running_; ///< by the executor's batch id
  uint64_t last_promise_ = 0;
  uint64_t last_ = 0;
  microseconds busy_{0};
  uint64_t batches_ = 0; ///< executed batches
  uint64_t requests_ = 0;
  timestamp came_; ///< arrival of the last batch
  moments gaps_, waits_, runs_;
  std::map<caf::actor_id, caf::strong_actor_ptr> routers_; ///< with batches
  /// Router and id of batches that were dropped before they arrived.
  std::deque<std::pair<caf::actor_id, uint64_t>> given_up_;
  std::map<caf::actor_id, next_stage> next_; ///< monitored next stages
  /// A batch for which the next stage was asked for a receipt.
  struct sent_batch {
    timestamp at;
    uint64_t id = 0;
    caf::actor_id to = 0;
  };
  sent_batch on_the_way_;
  moments sends_;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "actors/replica/replica.hpp"

namespace millrace {

/// State of a REPLICA; see replica.hpp. What goes to another stage is in
/// stages.cpp.
struct replica_state {
  const char* name = "replica";

  replica_state() = default;
  replica_state(const replica_state&) = delete;
  replica_state& operator=(const replica_state&) = delete;
  /// Those that it watched live on, and would keep its memory: CAF's actors
  /// have a weak reference to who monitors them until that is taken back.
  ~replica_state();

  void start(replica_actor::stateful_pointer<replica_state> self,
             replica_options options, bus* net);

  void on_run(run_batch& x);
  void on_executed(executed& x);
  void on_forward_batch(forward_batch& x);
  void on_batch_accepted(const batch_accepted& x);
  void on_drop(const drop_batch& x);
  void on_lost(const stage_lost& x);
  void on_peer_up(const peer_up& x);
  replica_load on_get_load() const;
  void on_adjust(const adjust& x);
  void on_share(const share_device& x);
  void on_finish_elsewhere();
  void on_finish();
  void on_router_released(const router_released& x);
  void on_tick();

private:
  /// Of a batch that passes through several stages.
  struct journey {
    passage way;
    deadline due;                 ///< the last of its requests'
    std::optional<executed> held; ///< its results, until they go on
    timestamp since;
  };

  struct batch {
    uint64_t id = 0;            ///< the router's
    caf::strong_actor_ptr from; ///< the router
    uint64_t trace = 0;         ///< as in run_batch
    timestamp arrived;          ///< of one that is traced
    bool dropped = false;       ///< nobody waits for it
    std::unique_ptr<journey> through;
  };
  using batch_map = std::unordered_map<uint64_t, batch>;

  void load(const fetched& x);
  void on_loaded(const stage_loaded& x);
  void fail(const caf::error& why, const char* doing);
  uint64_t bytes_of_weights() const;
  void report(replica_condition state, std::string reason = {});
  void report_condition();
  replica_limits limits() const;
  void announce_limits();
  void tune();
  /// A gateway that was told of this replica, while it is there.
  struct gateway_link {
    caf::actor handle;
    uint64_t promise = 0; ///< of room, by which it was told
    bool told_to_stop = false;
    bool released = false; ///< nothing more will come from there
    timestamp gone{};      ///< since when it is not there
  };

  bool serves(const std::string& node) const;
  void tell_to_stop(const std::string& node, gateway_link& x);
  bool is_released() const;
  void stop_serving();
  void announce_to(const std::string& node);
  bool tell_cache();
  void on_down(const caf::down_msg& x);
  void end_if_idle();
  bool is_announced_to(const caf::strong_actor_ptr& router) const;
  double refuse_too_large(const caf::strong_actor_ptr& receiver,
                          size_t requests, executed& result) const;
  /// `share`: as in batch_done, where it is known already.
  void answer(batch_map::iterator x, executed& result, double share = 0);
  // stages.cpp
  bool is_last_stage() const;
  bool is_void(uint64_t id, const passage& way) const;
  void begin_journey(batch& x, passage&& way, deadline due);
  batch_map::iterator find(uint64_t id);
  void end(batch_map::iterator x);
  void hold(batch_map::iterator x, executed& result);
  void go_on(batch_map::iterator x);
  bool wants_receipt(uint64_t id, caf::actor_id to);
  void drop(batch_map::iterator x);
  void cancel(batch_map::iterator x);
  void on_next_down(const std::string& replica);
  void on_router_down(caf::actor_id router);

  replica_actor::stateful_pointer<replica_state> self_ = nullptr;
  replica_options options_;
  bus* bus_ = nullptr;
  std::shared_ptr<const bundle> content_;
  model_info info_;
  uint64_t instance_ = 0;
  timestamp begun_{};
  microseconds fetch_{0}; ///< what that took
  std::string from_;      ///< where it was
  bool cache_lost_ = false;
  timestamp ready_at_;
  microseconds first_answer_{-1}; ///< since then
  stage_loaded loaded_;
  tunables loading_as_; ///< when the executor was asked to load
  bool ready_ = false;
  bool leaving_ = false; ///< all gateways but its own node's
  bool finishing_ = false;
  bool lost_ = false;                            ///< what it had loaded
  bool excused_ = false;                         ///< and so: see stage_lost
  std::map<std::string, gateway_link> gateways_; ///< by node
  layer_range layers_;                           ///< that it has
  batch_map running_;
  uint64_t last_promise_ = 0;
  uint64_t last_ = 0;
  microseconds busy_{0};
  uint64_t batches_ = 0; ///< executed
  uint64_t requests_ = 0;
  timestamp came_; ///< the last batch
  moments gaps_, waits_, runs_;
  std::map<caf::actor_id, caf::strong_actor_ptr> routers_; ///< of batches
  // Of stages: the routers' batches that are not to be run, should they come;
  // the replicas that batches go to.
  std::deque<std::pair<caf::actor_id, uint64_t>> given_up_;
  std::map<caf::actor_id, next_stage> next_;
  /// A batch that the next stage was asked for a receipt of, since when.
  struct sent_batch {
    timestamp at;
    uint64_t id = 0;
    caf::actor_id to = 0;
  };
  sent_batch on_the_way_;
  moments sends_;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <unordered_map>

#include "actors/replica/replica.hpp"

namespace millrace {

/// State of a REPLICA; see replica.hpp.
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
  void on_lost(const stage_lost& x);
  void on_peer_up(const peer_up& x);
  replica_load on_get_load() const;
  void on_finish_elsewhere();
  void on_finish();
  void on_tick();

private:
  struct batch {
    uint64_t id = 0; ///< the router's
    caf::strong_actor_ptr from;
    uint64_t trace = 0; ///< as in run_batch
    timestamp arrived;  ///< of one that is traced
  };

  void load(const fetched& x);
  void on_loaded(const stage_loaded& x);
  void fail(const caf::error& why, const char* doing);
  void report(replica_condition state, std::string reason = {});
  bool serves(const std::string& node) const;
  void tell_to_stop(const std::string& node, const caf::actor& gateway);
  void stop_serving();
  void announce_to(const std::string& node);
  void on_down(const caf::down_msg& x);
  void end_if_idle();

  replica_actor::stateful_pointer<replica_state> self_ = nullptr;
  replica_options options_;
  bus* bus_ = nullptr;
  std::shared_ptr<const bundle> content_;
  model_info info_;
  uint64_t instance_ = 0;
  stage_loaded loaded_;
  bool ready_ = false;
  bool leaving_ = false; ///< all gateways but its own node's
  bool finishing_ = false;
  bool lingered_ = false;
  bool lost_ = false;                          ///< what it had loaded
  std::map<std::string, caf::actor> gateways_; ///< by node
  std::unordered_map<uint64_t, batch> running_;
  uint64_t last_ = 0;
  microseconds busy_{0};
  uint64_t batches_ = 0; ///< executed
  uint64_t requests_ = 0;
};

} // namespace millrace

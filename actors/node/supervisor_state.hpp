// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "actors/node/restart_budget.hpp"
#include "actors/node/supervisor.hpp"

namespace millrace {

/// State of a SUPERVISOR; see supervisor.hpp.
struct supervisor_state {
  const char* name = "supervisor";

  void start(supervisor_actor::stateful_pointer<supervisor_state> self,
             supervisor_options options);

  void on_deploy(const deploy& order);
  void on_adjust(const adjust& order);
  void on_adjust_device(const adjust_device& order);
  caf::result<ack> on_slow_device(const slow_device& request);
  void on_evict(const evict& order);
  caf::result<measured> on_measure(const measure& request);
  void on_replica_status(const replica_status& message);
  void on_peer_up(const peer_up& message);
  void on_peer_down(const peer_down& message);
  member_list on_get_members() const;
  node_status on_get_status() const;
  ack on_drain();
  void on_tick();

  void on_bundles(bundle_list& message);
  void on_stored(stored_models& message);
  void on_device(device_condition& message);

  /// Schedules a message with the inventory to the controllers.
  void publish_soon();

private:
  std::vector<model_info> known_models() const;
  struct child {
    child_spec spec;
    caf::actor handle;
    restart_budget budget;
    uint64_t restarts = 0;
    timestamp start_at = far_future; ///< time of the next restart
    std::string state = "starting";
  };

  struct replica_entry {
    replica_actor handle;
    replica_status status;
  };

  /// A model version, and the source of its bundle.
  using start_kind = std::tuple<std::string, uint64_t, found_in>;
  struct start_series {
    histogram seconds;
    timestamp last; ///< last start of a replica
  };

  timestamp now() const;
  void show_start(const replica_status& replica);
  void set_sharing(const std::string& device,
                   const std::optional<device_sharing>& ordered);
  bool is_recent(const start_kind& kind, const start_series& series) const;
  void start_child(child& actor);
  void on_exit(const caf::exit_msg& message);
  void on_down(const caf::down_msg& message);
  void on_child_down(child& actor, const error& why);
  void keep_failure(const replica_status& replica);
  void on_replica_down(const std::string& replica, const error& why);
  void restart_due();
  void fail(std::string reason);
  void set_state(node_condition condition, std::string reason = {});
  caf::actor find_child(const std::string& child_name) const;
  bool obey(uint64_t epoch, uint64_t sequence);
  void ask_for_inventories();
  void request_content_reports();
  void publish();
  void tell_monitor();
  inventory make_inventory() const;
  /// Devices that accept replicas.
  std::vector<device_info> able_devices() const;
  std::vector<replica_status> replica_statuses() const;
  void finish_replicas();
  void drain_step();
  void arm();

  supervisor_actor::stateful_pointer<supervisor_state> self_ = nullptr;
  supervisor_options options_;
  std::vector<child> children_;
  std::map<std::string, replica_entry> replicas_;
  std::map<std::string, device_sharing> configured_; ///< by device
  /// The latest failed replicas, with the time of failure.
  std::vector<std::pair<timestamp, replica_status>> failed_replicas_;
  std::map<start_kind, start_series> starts_shown_;
  /// Controllers; on a controller all nodes.
  std::map<std::string, member> peers_;
  std::vector<model_info> models_; ///< models in the cache
  std::vector<model_info> kept_;   ///< as node_state::kept
  /// As node_state::cache_memory and node_state::held.
  std::pair<uint64_t, std::vector<held_bundle>> memory_;
  std::map<std::string, std::vector<model_info>> stored_; ///< by object store
  node_condition state_ = node_condition::starting;
  std::string reason_;
  std::map<std::string, std::string>
    device_troubles_; ///< as in device_condition
  timestamp started_;
  timestamp publish_at_ = far_future;
  alarm alarm_;
  timestamp stay_until_; ///< so that clients can read their last replies
  timestamp drain_until_ = far_future;
  uint64_t epoch_ = 0;    ///< of the newest controller seen
  uint64_t sequence_ = 0; ///< of its latest order
  bool ended_ = false;
};

} // namespace millrace

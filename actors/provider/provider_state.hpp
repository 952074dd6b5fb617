// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>

#include "actors/provider/fleet.hpp"
#include "actors/provider/provider.hpp"

namespace millrace {

/// A machine's entry in the ledger, as stored. Times are wall clock, since
/// 1970; below 0: not yet in this lease.
struct machine_row {
  uint32_t schema = 1;
  std::string pool;
  uint64_t lease = 0;
  uint64_t epoch = 0; ///< of the controller that wrote the condition
  machine_condition condition = machine_condition::released;
  microseconds since{0};         ///< start of the condition
  microseconds requested{-1};    ///< time at the source, once it has answered
  microseconds ready{-1};        ///< first time ready
  microseconds released{-1};     ///< time at the source
  microseconds used{0};          ///< time with replicas, up to this change
  microseconds past_reserved{0}; ///< of earlier leases
  microseconds past_used{0};
  MILLRACE_FIELDS(machine_row, schema, pool, lease, epoch, condition, since,
                  requested, ready, released, used, past_reserved, past_used)
};

/// State of the PROVIDER; see provider.hpp.
struct provider_state {
  const char* name = "provider";

  void start(provider_actor::stateful_pointer<provider_state> self,
             provider_options options);

  void on_observe(const observe_machines& message);
  void on_snapshot(const snapshot_taken& message);
  void on_proposal(const proposal& message);
  machine_list on_get_machines() const;
  void on_rows(const rows_read& message);
  void on_written(const machine_written& message);
  void on_listed(const machines_listed& message);
  void on_answered(const machine_answered& message);
  void on_tick();

private:
  struct entry {
    machine_row row;      ///< wanted content
    uint64_t version = 0; ///< of the stored row
    bool writing = false;
    bool again = false;   ///< the last write failed
    bool leaving = false; ///< a release was requested
    size_t replicas = 0;  ///< on its node
    bool joined = false;
    bool replaced = true;
  };

  microseconds wall_time() const;
  bool complete() const { return loaded_ && listed_ && snapshot_ != nullptr; }
  void adopt();
  void look(const cluster_snapshot& snapshot);
  void count_use();
  void step();
  void carry_out(const fleet_step& step);
  void change(const std::string& machine, entry& known, machine_condition to);
  void write(const std::string& machine, entry& known);
  void act(const std::string& machine, entry& known);
  void end_lease(const std::string& machine, entry& known, microseconds until);
  void tell_cluster_state();
  void arm();
  std::map<std::string, fleet_machine> fleet() const;
  microseconds reserved(const machine_row& row) const;

  provider_actor::stateful_pointer<provider_state> self_ = nullptr;
  provider_options options_;
  cluster_state_actor cluster_state_;
  std::map<std::string, fleet_pool> pools_;
  std::map<std::string, entry> machines_;
  std::map<std::string, std::string> pool_of_;     ///< by machine
  std::map<std::string, sourced_machine> sourced_; ///< by machine
  std::map<std::string, std::shared_ptr<const machine_state>> told_;
  std::shared_ptr<const cluster_snapshot> snapshot_; ///< null: none yet
  microseconds counted_at_{0};                       ///< end of the counted use
  bool loaded_ = false;                              ///< the ledger is read
  bool listed_ = false; ///< the source has answered
  alarm alarm_;
};

} // namespace millrace

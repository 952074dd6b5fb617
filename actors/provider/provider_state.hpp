// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>

#include "actors/provider/fleet.hpp"
#include "actors/provider/provider.hpp"

namespace millrace {

/// A machine's entry in the ledger, as it is stored. Points in time are of the
/// wall clock, since 1970; below 0: not yet in this lease.
struct machine_row {
  uint32_t schema = 1;
  std::string pool;
  uint64_t lease = 0;
  uint64_t epoch = 0; ///< of the controller that wrote the condition
  machine_condition condition = machine_condition::released;
  microseconds since{0};         ///< the condition
  microseconds requested{-1};    ///< as the source has it, once it has answered
  microseconds ready{-1};        ///< for the first time
  microseconds released{-1};     ///< as the source has it
  microseconds used{0};          ///< with replicas on it, up to this change
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

  void on_observe(const observe_machines& x);
  void on_snapshot(const snapshot_taken& x);
  void on_proposal(const proposal& x);
  machine_list on_get_machines() const;
  void on_rows(const registry_rows& x);
  void on_written(const machine_written& x);
  void on_listed(const machines_listed& x);
  void on_answered(const machine_answered& x);
  void on_tick();

private:
  struct entry {
    machine_row row;      ///< as it shall be
    uint64_t version = 0; ///< of the stored row
    bool writing = false;
    bool again = false;   ///< the last write failed
    bool leaving = false; ///< the source was asked to release it
    size_t replicas = 0;  ///< on its node
    bool joined = false;
    bool replaced = true;
  };

  microseconds wall_time() const;
  bool complete() const { return loaded_ && listed_ && snapshot_ != nullptr; }
  void adopt();
  void look(const cluster_snapshot& x);
  void count_use();
  void step();
  void carry_out(const fleet_step& x);
  void change(const std::string& machine, entry& x, machine_condition to);
  void write(const std::string& machine, entry& x);
  void act(const std::string& machine, entry& x);
  void end_lease(const std::string& machine, entry& x, microseconds until);
  void tell_cluster_state();
  void arm();
  std::map<std::string, fleet_machine> fleet() const;
  microseconds reserved(const machine_row& x) const;

  provider_actor::stateful_pointer<provider_state> self_ = nullptr;
  provider_options options_;
  cluster_state_actor cluster_state_;
  std::map<std::string, fleet_pool> pools_;
  std::map<std::string, entry> machines_;
  std::map<std::string, std::string> pool_of_;     ///< by machine
  std::map<std::string, sourced_machine> sourced_; ///< by machine
  std::map<std::string, std::shared_ptr<const machine_state>> told_;
  std::shared_ptr<const cluster_snapshot> snapshot_; ///< null: none yet
  microseconds counted_at_{0}; ///< up to when use is counted
  bool loaded_ = false;        ///< the ledger is read
  bool listed_ = false;        ///< the source has answered
  alarm alarm_;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>

#include "actors/autoscaler/autoscaler.hpp"
#include "actors/policies/scale/scaling_policy.hpp"

namespace millrace {

/// State of the AUTOSCALER; see autoscaler.hpp.
struct autoscaler_state {
  const char* name = "autoscaler";
  static constexpr size_t decisions_kept = 50; ///< per model
  static constexpr size_t records_kept = 64;   ///< in total

  void start(autoscaler_actor::stateful_pointer<autoscaler_state> self,
             autoscaler_options options, placement_actor placement,
             provider_actor provider, std::shared_ptr<metrics> counts);

  void on_snapshot(const snapshot_taken& message);
  void on_outdated(const proposal_outdated& message);
  scaling_list on_get_scaling() const;
  decision_list on_get_decisions(const get_decisions& request) const;
  caf::result<decision_records>
  on_get_records(const get_decision_records& request) const;
  void on_tick();

private:
  /// The loop of one scope.
  struct scope_loop {
    std::shared_ptr<const scope_state> scope;
    /// Null: the settings are invalid.
    std::shared_ptr<const scaling_policy> policy;
    policy_memory memory;
    timestamp due = far_future;
    proposal last;
    bool outdated = false; ///< the placement rejected the last proposal
  };
  struct past_decision {
    decision what;
    timestamp when;
  };
  /// Input and output of one call of a policy that changed replica counts.
  struct record {
    std::vector<decision> made;
    uint64_t seed = 0;
    timestamp when;
    policy_memory memory; ///< before the call
    proposal proposed;
    std::shared_ptr<const cluster_snapshot> snapshot;
  };

  timestamp now() const;
  void renew(scope_loop& loop, const std::string& scope,
             const std::shared_ptr<const scope_state>& is);
  bool concerns(const scope_state& scope, const cluster_snapshot& was) const;
  bool is_pressed(const scope_loop& loop) const;
  /// Runs the policy. Sends a changed proposal, or with `send` any proposal.
  void run(const std::string& scope, scope_loop& loop, bool send = false);
  std::vector<decision> note_changes(const scope_loop& of, const proposal& is);
  void keep_record(record decision);
  nanoseconds time_of_decision(const scope_state& scope) const;
  void show_replicas();
  void arm();

  autoscaler_actor::stateful_pointer<autoscaler_state> self_ = nullptr;
  autoscaler_options options_;
  placement_actor placement_;
  provider_actor provider_; ///< null: no pools
  std::shared_ptr<const cluster_snapshot> snapshot_;
  std::map<std::string, scope_loop> loops_;                    ///< by scope
  std::map<std::string, std::deque<past_decision>> decisions_; ///< by model
  std::deque<record> records_; ///< the latest last
  uint64_t last_decision_ = 0;
  alarm alarm_;
  std::shared_ptr<metrics> counts_;
  std::map<std::string, counter> replica_seconds_; ///< by registered model
  timestamp shown_at_; ///< last update of replica_seconds_
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>

#include "actors/cluster_state/cluster_state.hpp"
#include "actors/policies/state/demand_window.hpp"

namespace millrace {

/// State of the CLUSTER STATE; see cluster_state.hpp.
struct observer_state {
  const char* name = "cluster_state";

  void start(cluster_state_actor::stateful_pointer<observer_state> self,
             cluster_state_options options, placement_actor placement,
             autoscaler_actor autoscaler);

  void on_registered(const registered& x);
  void on_nodes(const nodes_changed& x);
  void on_demand(const demand_report& x);
  void on_pressure(const pressure& x);
  demand_list on_get_demand() const;
  void on_tick();

private:
  timestamp now() const;
  void publish_soon();
  void publish();
  void renew_scopes();
  void renew_models();
  void renew_groups();
  void renew_loads();
  void check_gateways();

  cluster_state_actor::stateful_pointer<observer_state> self_ = nullptr;
  cluster_state_options options_;
  placement_actor placement_;
  autoscaler_actor autoscaler_;
  timestamp begun_;
  registered intent_;
  bool has_intent_ = false;
  bool models_due_ = false; ///< the intent, or what bundles there are, changed
  std::set<std::string> groups_due_; ///< models whose replicas have changed
  std::map<std::string, std::vector<group_state>> groups_; ///< by model
  std::set<std::string> loads_due_;          ///< models whose load has changed
  std::map<std::string, timestamp> pressed_; ///< models: when that was sent
  std::set<std::string> stale_; ///< gateways whose reports are overdue
  cluster_snapshot now_there_;  ///< the next snapshot
  std::optional<demand_window> demand_;
  timestamp published_;
  alarm alarm_;
};

} // namespace millrace

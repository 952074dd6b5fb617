// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>

#include "actors/cluster_state/cluster_state.hpp"
#include "actors/policies/state/snapshot_builder.hpp"

namespace millrace {

/// State of the CLUSTER STATE; see cluster_state.hpp.
struct observer_state {
  const char* name = "cluster_state";

  void start(cluster_state_actor::stateful_pointer<observer_state> self,
             cluster_state_options options, placement_actor placement,
             autoscaler_actor autoscaler, provider_actor provider);

  void on_registered(const registered& message);
  void on_nodes(const nodes_changed& message);
  void on_costs(const costs_changed& message);
  void on_machines(const machines_changed& message);
  void on_demand(const demand_report& message);
  void on_pressure(const pressure& message);
  demand_list on_get_demand() const;
  void on_tick();

private:
  timestamp now() const;
  void publish_soon();
  void publish();
  void check_gateways();

  cluster_state_actor::stateful_pointer<observer_state> self_ = nullptr;
  cluster_state_options options_;
  placement_actor placement_;
  autoscaler_actor autoscaler_;
  provider_actor provider_; ///< null: no pools
  std::optional<snapshot_builder> next_;
  std::set<std::string> stale_; ///< gateways with overdue reports
  timestamp published_;
  alarm alarm_;
};

} // namespace millrace

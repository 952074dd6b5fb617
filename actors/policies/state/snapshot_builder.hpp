// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>

#include "actors/policies/state/cluster_view.hpp"
#include "actors/policies/state/demand_window.hpp"

namespace millrace {

/// Builds snapshots from changes of nodes, intent, costs and demand. Work is
/// proportional to the changes, except for a copy of maps of pointers.
class snapshot_builder {
public:
  /// `epoch`: of the controller. `period`: interval of gateway reports; 0:
  /// never. `begun`: the start of the snapshots' time.
  snapshot_builder(uint64_t epoch, microseconds period, timestamp begun);

  void set_intent(registered intent);
  bool has_intent() const { return has_intent_; }

  /// New states of some nodes; null for a node that has left.
  void
  set_nodes(const std::map<std::string, std::shared_ptr<const node_state>>& xs,
            timestamp now);

  /// Pools and machines that have changed; null: a machine is released.
  void set_machines(
    const std::map<std::string, std::shared_ptr<const pool_state>>& pools,
    const std::map<std::string, std::shared_ptr<const machine_state>>&
      machines);

  void set_costs(std::shared_ptr<const cost_book> costs) {
    next_.costs = std::move(costs);
  }

  /// Returns false when the report is ignored; see demand_window.
  bool add(const demand_report& report, timestamp now);

  /// Requests wait for a model without a ready replica. Returns false when no
  /// such model is registered.
  bool add(const pressure& report, timestamp now);

  /// Builds the next snapshot. Requires an intent.
  std::shared_ptr<const cluster_snapshot> take(timestamp now);

  const demand_window& demand() const { return demand_; }

private:
  /// The scope of a model; the pin scope of a pinned model.
  std::string owner_of(const model_settings& settings) const;
  void note_node(const std::string& name, const node_state* was,
                 const node_state* is);
  void renew_scopes();
  void renew_models();
  void renew_groups();
  void renew_loads(timestamp now);
  node_list holders_of(const std::string& model) const;

  cluster_snapshot next_;
  timestamp begun_;
  microseconds period_;
  demand_window demand_;
  registered intent_;
  bool has_intent_ = false;
  bool scopes_due_ = false;          ///< the intent has changed
  std::set<std::string> models_due_; ///< models with new or removed bundles
  std::set<std::string> groups_due_; ///< models with changed replicas
  std::set<std::string> loads_due_;  ///< models with a changed load
  /// By model: nodes with a bundle or a replica of the model.
  std::map<std::string, std::set<std::string>> holders_;
  std::map<std::string, size_t>
    of_intent_; ///< by model: position in the intent
  std::map<std::string, std::vector<group_state>> groups_; ///< by model
  std::map<std::string, timestamp>
    pressed_; ///< by model: time of the last `pressure`
};

} // namespace millrace

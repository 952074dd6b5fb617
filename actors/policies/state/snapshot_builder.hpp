// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>

#include "actors/policies/state/cluster_view.hpp"
#include "actors/policies/state/demand_window.hpp"

namespace millrace {

/// Puts snapshots together from what changes between them. What a snapshot
/// costs depends on what has changed, but for a copy of maps of pointers.
class snapshot_builder {
public:
  /// `epoch` is the controller's, `period` how often gateways report (0: never)
  /// and `begun` the moment that snapshots count from.
  snapshot_builder(uint64_t epoch, microseconds period, timestamp begun);

  void set_intent(registered x);
  bool has_intent() const { return has_intent_; }

  /// Nodes as they are now; null: a node has gone.
  void
  set_nodes(const std::map<std::string, std::shared_ptr<const node_state>>& xs,
            timestamp now);

  void set_costs(std::shared_ptr<const cost_book> x) {
    next_.costs = std::move(x);
  }

  /// Returns false when the report is ignored; see demand_window.
  bool add(const demand_report& x, timestamp now);

  /// Requests wait for a model without a ready replica. Returns false when no
  /// such model is registered.
  bool add(const pressure& x, timestamp now);

  /// The next snapshot. Only with an intent.
  std::shared_ptr<const cluster_snapshot> take(timestamp now);

  const demand_window& demand() const { return demand_; }

private:
  /// The scope that a model belongs to: of one that is pinned, the operator's.
  std::string owner_of(const model_settings& x) const;
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
  std::set<std::string> models_due_; ///< models whose bundles may have changed
  std::set<std::string> groups_due_; ///< models whose replicas have changed
  std::set<std::string> loads_due_;  ///< models whose load has changed
  /// By model: the nodes that have bundles or replicas of it.
  std::map<std::string, std::set<std::string>> holders_;
  std::map<std::string, size_t> of_intent_; ///< by model: its place there
  std::map<std::string, std::vector<group_state>> groups_; ///< by model
  std::map<std::string, timestamp> pressed_; ///< models: when that was sent
};

} // namespace millrace

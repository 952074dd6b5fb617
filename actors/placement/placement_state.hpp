// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <variant>

#include "actors/placement/placement.hpp"
#include "actors/placement/quarantine.hpp"
#include "actors/placement/start_log.hpp"
#include "actors/policies/rollout/reconcile.hpp"
#include "transport/lost_nodes.hpp"

namespace millrace {

/// State of a PLACEMENT; see placement.hpp.
struct placement_state {
  const char* name = "placement";

  void start(placement_actor::stateful_pointer<placement_state> self,
             placement_options options, std::shared_ptr<metrics> counts);

  void on_snapshot(const snapshot_taken& message);
  void on_proposal(const proposal& message);
  void on_observe(const observe_nodes& message);
  void on_inventory(inventory& message);
  void on_peer_down(const peer_down& message);
  model_list on_get_models() const;
  start_list on_get_starts() const;
  void on_decided(const decided_plan& message);
  void on_tick();

private:
  /// An order that its node has not confirmed yet.
  struct order {
    uint64_t sequence = 0;
    std::variant<deploy, adjust, adjust_device, evict> what;
  };

  /// The last adjustment of a replica.
  struct adjusted {
    timestamp at;
    placement_plan::adjustment what;
  };

  /// The last order on the sharing of a device.
  struct shared_device {
    timestamp at;
    std::optional<device_sharing> what;
  };

  /// A model with recently failed replicas.
  struct trouble {
    quarantine rules;
    std::string reason; ///< of the last failure

    std::string note() const {
      return (rules.is_in_force() ? "in quarantine: " : "") + reason;
    }
  };

  /// How a node is reached, and the last order that it has confirmed.
  struct node_link {
    uint64_t epoch = 0;
    uint64_t sequence = 0;
    caf::strong_actor_ptr supervisor;
    caf::strong_actor_ptr gateway;
  };

  timestamp now() const;
  std::vector<wanted_groups> wanted() const;
  result<void> check(const proposal& proposed) const;
  std::optional<std::string> what_outdates(const proposal& proposed) const;
  void note_changes(const cluster_snapshot* was);
  bool is_leaving(const std::string& node) const;
  void note_leaving_machines();
  void await_decisions(const node_state& fresh);
  void tell_cluster_state();
  void commit_soon();
  /// Holds back commits until a node has sent its inventory, so that its
  /// replicas are not started twice, at most for `settle`.
  void await(const std::string& node);
  /// After the return of a lost node, awaits the nodes that were lost at about
  /// the same time: the failed part may have been this node or the network.
  void await_those_lost_with(const std::string& node);
  /// Expected nodes that have not joined, while no replica runs in the cluster.
  std::set<std::string> missing() const;
  void commit();
  size_t replicas() const;
  bool is_on_its_way(const std::string& model) const;
  void show_copies();
  void carry_out(const placement_plan& plan);
  void note_failure(const replica_status& replica);
  void tell_gateways(const std::vector<wanted_model>& models);
  template <class Order>
  void give_order(node_state& node, Order order);
  static void apply(node_state& node, const deploy& order);
  static void apply(node_state& node, const adjust& order);
  static void apply(node_state& node, const adjust_device& order);
  static void apply(node_state& node, const evict& order);
  void start_replica(node_state& node, const assignment& what);
  void adjust_replicas(const placement_plan& plan);
  void share_devices();
  void note_faults_of_proposals();
  std::vector<std::string> faults_of_devices(const proposal& proposed) const;
  void share_device_of(node_state& node, const device_info& device,
                       const std::optional<device_sharing>& sharing);
  std::optional<device_sharing> sharing_of(const std::string& node,
                                           const device_info& device) const;
  result<void> check_sharing(const proposal& proposed) const;
  void end_replica(node_state& node, const std::string& replica);

  placement_actor::stateful_pointer<placement_state> self_ = nullptr;
  placement_options options_;
  std::shared_ptr<const placement_policy> policy_;
  timestamp settled_at_;
  timestamp joined_at_; ///< end of the wait for expected nodes
  lost_nodes lost_;
  std::set<std::string> awaited_; ///< nodes
  timestamp awaited_until_;
  cluster_view view_;
  capacity_keeper capacity_;               ///< the index of view_
  std::map<std::string, node_link> links_; ///< by node
  cluster_state_actor cluster_state_;
  /// Nodes that count as draining because their machines are to be released.
  std::set<std::string> leaving_;
  std::set<std::string> changed_; ///< nodes to report to the CLUSTER STATE
  std::shared_ptr<const cluster_snapshot> snapshot_; ///< null: no intent yet
  std::map<std::string, std::vector<order>> orders_; ///< by node
  uint64_t last_order_ = 0;
  std::map<std::string, adjusted> adjusted_;    ///< by replica
  std::map<std::string, shared_device> shared_; ///< by NODE/ID
  start_log starts_;
  std::map<std::string, proposal> proposals_; ///< by scope
  /// Why the latest proposal of a scope was refused. The proposal before it
  /// stays in force.
  std::map<std::string, std::string> refusals_;
  // Numbers of the snapshots in which something changed that outdates earlier
  // decisions: intent by model, and nodes that left.
  std::map<std::string, uint64_t> intent_changed_, left_;
  /// Metrics of a registered model.
  struct copies_shown {
    gauge wanted, ready, starting;
  };
  /// The latest wanted_models message to a gateway.
  struct told {
    caf::actor_addr gateway;
    std::vector<wanted_model> models;
  };
  std::map<std::string, told> told_;
  std::map<std::string, std::string> notes_;
  /// By model, and whether the replica extends another one. A failed extension
  /// must not delay the replacement of a lost replica.
  std::map<std::pair<std::string, bool>, trouble> troubles_;
  std::shared_ptr<metrics> counts_;
  std::map<std::string, copies_shown> shown_; ///< by model
  bool due_ = false;
  bool deciding_ = false; ///< a plan waits for its simulated time
  bool again_ = false;    ///< a change came while deciding_
};

} // namespace millrace

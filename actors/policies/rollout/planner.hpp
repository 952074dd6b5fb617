// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "actors/policies/rollout/group_map.hpp"
#include "actors/policies/rollout/reconcile.hpp"

namespace millrace {

/// Makes one plan; see reconcile.hpp. reconcile.cpp compares wanted groups with
/// running replicas. placing.cpp gets devices from the policy and makes room.
/// replacement.cpp replaces replicas of an old version or setting.
/// completion.cpp turns parts into whole replicas.
class rollout_planner {
public:
  /// The arguments outlive the planner.
  rollout_planner(const cluster_view& view,
                  const std::vector<wanted_groups>& wanted,
                  const placement_policy& policy,
                  const cluster_snapshot& snapshot, device_capacity& capacity);

  placement_plan run();

private:
  /// Adds a model to `stuck` when it has no replica and none is being started.
  void note_stuck(const std::string& model);

  /// Sorts the running replicas of a model into its groups.
  void survey(const wanted_groups& wanted);

  /// Evicts surplus replicas of each part, and notes the missing ones. Ready
  /// whole replicas reduce the number of wanted parts.
  void plan_copies(layout& all);

  /// Evicts the parts once all whole replicas that replace them are ready. When
  /// the parts no longer form a pipeline, evicts each part that waits for no
  /// whole replica.
  void plan_completion(layout& all);

  /// Starts a whole replica on each device with a ready part; more than one per
  /// device when there are fewer devices than wanted copies. Returns the parts
  /// that wait for a whole replica.
  std::set<const replica_status*> complete_parts(const layout& all);

  /// The parts of a layout, by their first layer.
  static std::vector<size_t> by_layers(const layout& all);

  /// Starts a whole replica beside a part. Returns false when the device lacks
  /// room.
  bool load_whole(const replica_spec& whole, const placed_replica& part);

  /// Once all groups of a model are ready: evicts replicas that match no group,
  /// and spreads groups over nodes.
  void tidy_up(const std::string& model, const std::vector<size_t>& layouts);

  /// Whether each replica of a model is a copy by itself, so that replicas can
  /// be replaced one after the other. For a model in parts all new replicas are
  /// ready before an old replica ends.
  bool is_replaced_by_turns(const std::vector<size_t>& layouts) const;

  /// Copies of a model over all groups, replicas that match no group included.
  struct copies_of {
    uint64_t wanted = 0;
    uint64_t least = 0;
    uint64_t there = 0;
    uint64_t ready = 0;
  };
  copies_of count(const std::vector<size_t>& layouts,
                  const std::vector<placed_replica>& wrong) const;

  /// Evicts replicas that match no group: all that are not ready, and ready
  /// ones while the model keeps more than `keep` ready copies.
  void end_down_to(uint64_t keep, copies_of& is,
                   std::vector<placed_replica>& wrong);

  /// Rollout of a model, as far as no room is missing: evicts old replicas that
  /// are not needed to serve, and limits new replicas to the surge.
  void replace_by_turns(const wanted_groups& wanted);

  /// When new replicas have no room beside old ones: evicts as many old
  /// replicas as `rollout.unavailable` allows, never below `least`.
  void end_for_room(const wanted_groups& wanted);

  static std::string devices_of(const std::vector<placed_replica>& xs);

  /// When all replicas of a group share one node: starts another one elsewhere.
  /// A later plan evicts the surplus replica.
  void spread(const replica_spec& what, const std::vector<placed_replica>& xs);

  /// When two parts of a model share a device while a device without a part of
  /// the model has fewer replicas: starts one of the two there. A later plan
  /// evicts the surplus replica. Loads differ by less than two afterwards, so
  /// that no part moves back.
  void use_emptier_device(const layout& all);

  /// Whether enough replicas stay ready without this one.
  static bool may_go(const placed_replica& r,
                     const std::vector<placed_replica>& all, uint64_t count);

  /// Whether a replica of other layers of the model is on the same device.
  bool is_beside_another_part(const placed_replica& replica) const;

  /// The replica to evict first. In this order: the node with most replicas of
  /// the group, a device with another part of the model, the newest.
  placed_replica& surplus_of(std::vector<placed_replica>& xs) const;

  placed_replica take_surplus(std::vector<placed_replica>& xs) const;

  void evict(const placed_replica& r);

  /// Adjusts the replicas of a layout that have other tunables, policy, tenants
  /// or group than wanted.
  void adjust(const layout& all);

  static group_tag tag_of(const model_state& model, const replica_group& group);

  void deploy(const replica_spec& what, const device_room& to,
              const std::string& extends_replica = {});

  /// Whether a replica of any version with these layers answers requests, or
  /// will before its warm-up.
  bool serves(const replica_spec& what) const;

  /// Asks the policy for devices and starts the replicas there. Returns the
  /// refusals.
  std::vector<placement_map::refusal>
  place(std::span<const replica_spec> what,
        const std::vector<placement_request>& wanted);

  /// Refuses all new replicas of a cut when one of its parts would have no
  /// replica: an incomplete pipeline serves no request.
  static void refuse_broken_cuts(placement_map& map,
                                 std::span<const placement_request> wanted);

  /// Places all missing replicas; spare replicas make room for refused ones.
  void put_missing();

  void wait_or_make_way(const replica_spec& what,
                        const placement_map::refusal& refused);

  /// Whether a replica has room on a device once the draining replicas and
  /// those in `gone` have ended.
  bool will_have_room(const replica_spec& what, const device_room& p,
                      const std::vector<placed_replica>& gone = {}) const;

  /// Reserves the room that draining replicas will free.
  void wait_for_room(const replica_spec& what, size_t at, uint64_t freed,
                     bool counts_as_load);

  /// Reserves room for one replica on the least loaded device where draining
  /// replicas free enough. Returns false when there is no such device.
  bool wait_for_leaving(const replica_spec& what,
                        const std::vector<size_t>& among);

  /// Evicts spare replicas of one node so that one more replica has room.
  /// Returns false when no node has enough spare replicas.
  bool make_way(const replica_spec& what, const std::vector<size_t>& among);

  std::vector<placed_replica> spare_on(const node_state& node) const;

  void let_go(const placed_replica& r);

  const cluster_view& view_;
  const placement_policy& policy_;
  const cluster_snapshot& snapshot_;
  const std::vector<wanted_groups>& wanted_;
  device_capacity& capacity_;
  capacity_reservation booked_{capacity_}; ///< undone at the end of the plan
  group_map groups_{capacity_};
  std::map<std::string, std::vector<placed_replica>> there_; ///< by model
  /// Wanted replicas without a device yet.
  struct missing {
    replica_spec what;
    placement_request request;
  };
  std::vector<missing> missing_;
  std::set<std::string> no_room_; ///< models with a refused replica
  replica_numbers numbers_;
  placement_plan plan_;
};

} // namespace millrace

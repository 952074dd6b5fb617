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

/// Makes one plan; see reconcile.hpp. What is wanted is compared with what is
/// there in reconcile.cpp; placing.cpp has devices chosen and makes room,
/// replacement.cpp replaces replicas by turns, completion.cpp has parts become
/// whole replicas.
class rollout_planner {
public:
  /// The arguments outlive the planner.
  rollout_planner(const cluster_view& view,
                  const std::vector<wanted_groups>& wanted,
                  const placement_policy& policy,
                  const cluster_snapshot& snapshot);

  placement_plan run();

private:
  /// No replica of a model can be started.
  void note_stuck(const std::string& model);

  /// Finds out what there is of a model.
  void survey(const wanted_groups& x);

  /// As many replicas of each part as are wanted, but for those that whole ones
  /// have taken the place of.
  void plan_copies(layout& all);

  /// The parts go when all whole replicas that they are to become are ready;
  /// where they make up no pipeline any more each goes as soon as it waits for
  /// nothing.
  void plan_completion(layout& all);

  /// Has a whole replica loaded on each device with a part, as soon as one is
  /// ready there; more than one where all these devices are too few for the
  /// copies that are wanted. Returns the parts that wait for one.
  std::set<const replica_status*> complete_parts(const layout& all);

  /// The parts of a layout, by their first layer.
  static std::vector<size_t> by_layers(const layout& all);

  /// Loads it beside a part, where there is room. Returns whether there was.
  bool load_whole(const replica_spec& whole, const placed_replica& part);

  /// Once all groups of a model are ready, replicas that are as no group wants
  /// them go, and groups are spread.
  void tidy_up(const std::string& model, const std::vector<size_t>& layouts);

  /// Whether replicas of a model can be replaced one after the other: each is
  /// a copy by itself. Of a model in parts all new ones come before an old one
  /// goes.
  bool is_replaced_by_turns(const std::vector<size_t>& layouts) const;

  /// How many copies a model has, and shall have at least, over all groups.
  struct copies_of {
    uint64_t wanted = 0;
    uint64_t least = 0;
    uint64_t there = 0;
    uint64_t ready = 0;
  };
  copies_of count(const std::vector<size_t>& layouts,
                  const std::vector<placed_replica>& wrong) const;

  /// Ends replicas that are as no group wants them: what does not serve, and
  /// what serves beyond so many.
  void end_down_to(uint64_t keep, copies_of& is,
                   std::vector<placed_replica>& wrong);

  /// While some replicas are as no group wants them: those that are not needed
  /// to serve end, and those that replace the others start a few at a time.
  void replace_by_turns(const wanted_groups& x);

  /// Where the new ones have no room beside the old ones, as many of these end
  /// as the rollout allows.
  void end_for_room(const wanted_groups& x);

  static std::string devices_of(const std::vector<placed_replica>& xs);

  /// Where several replicas stand or fall with one node: one more elsewhere,
  /// and once that is ready a plan finds a surplus here.
  void spread(const replica_spec& what, const std::vector<placed_replica>& xs);

  /// Whether enough serve without it.
  static bool may_go(const placed_replica& r,
                     const std::vector<placed_replica>& all, uint64_t count);

  /// One: of the node that has most of them, the newest.
  static placed_replica& surplus_of(std::vector<placed_replica>& xs);

  static placed_replica take_surplus(std::vector<placed_replica>& xs);

  void evict(const placed_replica& r);

  void deploy(const replica_spec& what, const device_room& to,
              const std::string& extends_replica = {});

  /// Whether a replica that has these layers answers requests, of whatever
  /// version, or will before it is warm.
  bool serves(const replica_spec& what) const;

  bool can_get(const replica_spec& what, const device_room& on,
               uint64_t freed = 0) const;

  footprint footprint_of(const replica_spec& what, const device_room& on) const;

  /// Has the policy place replicas, and starts them there. Returns what it has
  /// refused.
  std::vector<placement_map::refusal>
  place(std::span<const replica_spec> what,
        const std::vector<placement_request>& wanted);

  /// A cut of which some part would have no replica at all gets none: what the
  /// others take would serve no request.
  static void refuse_broken_cuts(placement_map& map,
                                 std::span<const placement_request> wanted);

  /// Adds the replicas that must be there: what no copy is wanted of makes way.
  void put_missing();

  void wait_or_make_way(const replica_spec& what,
                        const placement_map::refusal& refused);

  /// Whether one has room on a place once what leaves has left, and these.
  bool will_have_room(const replica_spec& what, const device_room& p,
                      const std::vector<placed_replica>& gone = {}) const;

  /// Nothing else gets what leaves a place.
  void wait_for_room(const replica_spec& what, device_room& p,
                     uint64_t freed = 0);

  /// Reserves room for one replica on the emptiest device that has it once what
  /// leaves has left. Returns whether there is one.
  bool wait_for_leaving(const replica_spec& what,
                        const std::vector<size_t>& among);

  /// Evicts spare replicas where that makes room for one more: of its device,
  /// or of its node's memory.
  bool make_way(const replica_spec& what, const std::vector<size_t>& among);

  std::vector<placed_replica> spare_on(const node_state& node) const;

  void let_go(const placed_replica& r);

  const cluster_view& view_;
  const placement_policy& policy_;
  const cluster_snapshot& snapshot_;
  const std::vector<wanted_groups>& wanted_;
  device_capacity capacity_;
  group_map groups_{capacity_};
  std::map<std::string, std::vector<placed_replica>> there_; ///< by model
  /// Replicas that are wanted and not there.
  struct missing {
    replica_spec what;
    placement_request request;
  };
  std::vector<missing> missing_;
  std::set<std::string> no_room_; ///< models of which some replica has none
  replica_numbers numbers_;
  placement_plan plan_;
};

} // namespace millrace

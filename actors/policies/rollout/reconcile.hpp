// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/policies/place/placement_policy.hpp"

namespace millrace {

/// What is wanted of one registered model.
struct wanted_groups {
  std::shared_ptr<const model_state> model;
  std::vector<replica_group> groups; ///< none: its scope has not decided yet
  std::string refused;               ///< why it has no plan; what runs stays
  rollout_settings rollout{};
};

/// What has to happen so that the cluster becomes what is wanted.
struct placement_plan {
  std::vector<assignment> deploy;
  struct eviction {
    std::string node;
    std::string replica;
  };
  std::vector<eviction> evict;
  std::vector<wanted_model> serve;          ///< what replicas are wanted of
  std::map<std::string, std::string> notes; ///< model -> why not all can be
  /// Models of which a replica is wanted, none is there or starts, and none can
  /// be started even when all that leaves has left.
  std::set<std::string> stuck;
};

/// Makes the difference between the replicas that there are and the groups that
/// are wanted. Replicas that are as their group wants them stay; missing ones
/// go where the policy places them; surplus ones go, from the node that has
/// most of the group, as do those of models that are not wanted and, once all
/// groups of a model are ready, those of its groups that are gone. A group's
/// replicas that are all on one node are spread when another comes. What
/// replaces a replica of another version, policy, share or device is ready
/// before that one goes. Where a group extends the replicas of a cut, each of
/// these has room for the whole model, and each device with one that is ready
/// gets a whole replica; when none of these is on its way and as many are ready
/// as copies are wanted, the parts go. Nodes that drain get nothing, and what
/// they have does not count.
placement_plan reconcile(const cluster_view& view,
                         const std::vector<wanted_groups>& wanted,
                         const placement_policy& policy,
                         const cluster_snapshot& snapshot);

/// How many copies of a model there are. One in parts is ready when all its
/// parts are, and starts while one of them does. Whole ones that take the place
/// of parts count beside these.
struct copy_count {
  uint64_t wanted = 0;
  uint64_t ready = 0;
  uint64_t starting = 0;
};
copy_count count_copies(const cluster_view& view, const wanted_groups& x);

} // namespace millrace

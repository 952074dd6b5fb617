// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "transport/messages/cluster.hpp"

namespace millrace {

/// The cluster as the placement sees it.
struct cluster_view {
  std::map<std::string, inventory> nodes;
  /// Names of replicas on nodes that are out of sight and may come back, by
  /// node.
  std::map<std::string, std::vector<std::string>> gone;
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
};

/// First fit: replicas that are there stay; missing ones go to the first device
/// that has the bundle on its node, is asked for, and has room, fewest replicas
/// first; surplus ones go, from the node that has most of them, as do those of
/// models, versions or parts not wanted. Replicas of a model that are all on
/// one node are spread when another comes. What replaces a replica of another
/// version, policy or share is ready before that one goes. Nodes that drain get
/// nothing, and what they have does not count. No name is given that a replica
/// in sight or gone has.
placement_plan reconcile(const cluster_view& view,
                         const std::vector<model_settings>& wanted);

/// How many copies of a model there are. One in parts is ready when all its
/// parts are; what is there of one that is not counts as starting.
struct copy_count {
  uint64_t ready = 0;
  uint64_t starting = 0;
};
copy_count count_copies(const cluster_view& view, const model_settings& x);

/// The concrete version settings mean, by what nodes hold; 0: none has it.
uint64_t resolve_version(const cluster_view& view, const model_settings& x);

} // namespace millrace

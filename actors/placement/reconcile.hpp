// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "actors/placement/cluster_view.hpp"

namespace millrace {

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
/// version, policy or share is ready before that one goes. Where parts are to
/// be completed, each has room for the whole model, and each device with one
/// that is ready gets a whole replica; when none of these is on its way and as
/// many are ready as copies are wanted, the parts go. Nodes that drain
/// get nothing, and what they have does not count.
placement_plan reconcile(const cluster_view& view,
                         const std::vector<model_settings>& wanted);

} // namespace millrace

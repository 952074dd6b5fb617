// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the shell asks a cluster, through the one node it is connected to.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/operator_client.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

/// What every node says of itself, and who did not answer.
struct cluster_status {
  member self;
  std::vector<node_status> nodes;
  std::vector<std::string> silent;
  std::vector<lost_member> lost; ///< without a link to ours
  std::map<std::string, node_load> load;
};

/// Asks all nodes that are linked with ours; those that do not answer within
/// two seconds are silent. Errors: unavailable when ours does not answer.
result<cluster_status> ask_all(operator_client& cluster);

/// What is registered, and the node that said so.
struct registry_answer {
  std::string node;
  model_list list;
};

/// Asks the controller. Errors: unavailable when there is none.
result<registry_answer> ask_registry(operator_client& cluster);

/// What a monitor says of one of its node's devices or replicas.
template <class Usage>
std::optional<Usage> usage_of(const cluster_status& x, const std::string& node,
                              std::vector<Usage> node_load::*list,
                              std::string Usage::*key,
                              const std::string& wanted) {
  auto load = x.load.find(node);
  if (load == x.load.end())
    return std::nullopt;
  for (auto& u : load->second.*list)
    if (u.*key == wanted)
      return u;
  return std::nullopt;
}

} // namespace millrace

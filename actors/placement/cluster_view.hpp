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

/// A replica on a node, while a plan is made.
struct placed {
  const std::string* node;
  const replica_status* status;
};

/// Whether it serves or will: it is not on its way out.
bool is_there(const replica_status& x);

/// A node's bundle of a model; null where it has none.
const model_info* bundle_on(const inventory& node, const std::string& model,
                            uint64_t version);

/// Some node's; null where none has it.
const model_info* bundle_of(const cluster_view& view, const std::string& model,
                            uint64_t version);

/// The concrete version settings mean, by what nodes hold; 0: none has it.
uint64_t resolve_version(const cluster_view& view, const model_settings& x);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "transport/messages/snapshot.hpp"

namespace millrace {

/// The highest replica number of each model and version, so that no two
/// replicas ever have the same name.
class replica_numbers {
public:
  /// Adds the name of a present or past replica, for example "m.1.7".
  void add(const std::string& replica);

  /// Returns a name that was neither added nor returned before.
  std::string fresh(const std::string& model, uint64_t version);

private:
  std::map<std::string, uint64_t> highest_; ///< "m.1" -> 7
};

/// The number in a replica's name: "m.1.7" -> 7.
uint64_t number_of(const std::string& replica);

/// The state of the cluster in the placement.
struct cluster_view {
  std::map<std::string, node_state> nodes;
  replica_numbers numbers; ///< of all replicas seen
};

/// Nodes in the order of their names; no entry is null.
using node_list = std::vector<const node_state*>;

/// A replica and its node, during a plan.
struct placed_replica {
  const std::string* node;
  const replica_status* status;
};

/// Whether a replica is ready or starting.
bool is_there(const replica_status& replica);

/// A node's bundle of a model on its disk; null: none.
const model_info* bundle_on(const node_state& node, const std::string& model,
                            uint64_t version);

/// Whether a node has this bundle in its cache, complete, from another node.
bool has_kept(const node_state& node, const model_info& model);

/// The bundle of a model that a node has or can fetch from another node; null:
/// neither.
const model_info* bundle_for(const cluster_view& view, const node_state& node,
                             const std::string& model, uint64_t version);

/// The bundle of a model on any node; a bundle in a cache only if no
/// bundle directory has one. Null: no node has the bundle.
const model_info* bundle_of(const cluster_view& view, const std::string& model,
                            uint64_t version);

/// The same among these nodes only.
const model_info* bundle_of(const node_list& nodes, const std::string& model,
                            uint64_t version);

/// Resolves the version in settings to a number, among the bundles on disks and
/// in object stores. If these have no version of the model, bundles in
/// caches count: the version with that number, or for the default the serving
/// version, else the newest. 0: no node has the version.
uint64_t resolve_version(const cluster_view& view,
                         const model_settings& settings);
uint64_t resolve_version(const node_list& nodes,
                         const model_settings& settings);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "transport/messages/snapshot.hpp"

namespace millrace {

/// The numbers that replicas of each model and version have had: one that comes
/// back, or is asked about, is not taken for another.
class replica_numbers {
public:
  /// A replica of this name, "m.1.7", is there, or was.
  void add(const std::string& replica);

  /// A name that none has had which was added, nor was given this one.
  std::string fresh(const std::string& model, uint64_t version);

private:
  std::map<std::string, uint64_t> highest_; ///< "m.1" -> 7
};

/// That number: "m.1.7" -> 7.
uint64_t number_of(const std::string& replica);

/// The cluster as the placement sees it.
struct cluster_view {
  std::map<std::string, node_state> nodes;
  replica_numbers numbers; ///< of those that were there
};

/// Some nodes, in the order of their names; none is null.
using node_list = std::vector<const node_state*>;

/// A replica on a node, while a plan is made.
struct placed_replica {
  const std::string* node;
  const replica_status* status;
};

/// Whether it serves or will: it is not on its way out.
bool is_there(const replica_status& x);

/// A node's bundle of a model; null where it has none on its disk.
const model_info* bundle_on(const node_state& node, const std::string& model,
                            uint64_t version);

/// Whether a node has kept that bundle, which came from others.
bool has_kept(const node_state& node, const model_info& x);

/// The bundle of a model that a node has, or can get from one that has it; null
/// where it can do neither.
const model_info* bundle_for(const cluster_view& view, const node_state& node,
                             const std::string& model, uint64_t version);

/// Some node's; one that it has kept only where no disk has any. Null where
/// none has it.
const model_info* bundle_of(const cluster_view& view, const std::string& model,
                            uint64_t version);

/// The same among these nodes.
const model_info* bundle_of(const node_list& nodes, const std::string& model,
                            uint64_t version);

/// The concrete version settings mean, by what is on disks and in stores. Where
/// no version of it is there any more, what nodes have kept counts: a version
/// by number, or for the default what serves now, or else the newest. 0: none
/// has it.
uint64_t resolve_version(const cluster_view& view, const model_settings& x);
uint64_t resolve_version(const node_list& nodes, const model_settings& x);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "transport/messages/snapshot.hpp"

namespace millrace {

/// The bundles of a cluster by model and version, for nodes by number: answers
/// the queries of cluster_view.hpp without a walk over all nodes.
class bundle_map {
public:
  /// Replaces the bundles of a node. The node must not move while the index
  /// refers to it. Returns whether its bundles have changed.
  bool set(size_t number, const node_state& node);

  /// As bundle_on.
  const model_info* on_disk(size_t number, const std::string& model,
                            uint64_t version) const;

  /// As bundle_of.
  const model_info* any(const std::string& model, uint64_t version) const;

  /// As bundle_for.
  const model_info* for_node(size_t number, const node_state& node,
                             const std::string& model, uint64_t version) const;

  /// Returns the bundle if all nodes with the model and version have the same
  /// one; null otherwise.
  const model_info* only(const std::string& model, uint64_t version) const;

  /// Numbers of the nodes with a bundle on disk or in the cache, ascending.
  std::vector<size_t> holders(const std::string& model, uint64_t version) const;

  /// An upper bound of the number of holders.
  size_t holder_count(const std::string& model, uint64_t version) const;

  friend bool operator==(const bundle_map&, const bundle_map&) = default;

private:
  /// Two bundles are the same when all these are equal.
  struct identity {
    std::string model;
    uint64_t version = 0;
    std::string content;
    uint64_t bytes = 0;
    std::vector<uint64_t> layer_bytes;
    friend bool operator==(const identity&, const identity&) = default;
  };
  /// The nodes with one bundle.
  struct entry {
    std::map<size_t, const model_info*> disk, kept;
    std::map<std::string, size_t> contents; ///< number of nodes, by content
    friend bool operator==(const entry&, const entry&) = default;
  };
  using list = std::vector<model_info> node_state::*;

  static std::vector<identity> identities(const std::vector<model_info>& xs);
  const entry* find(const std::string& model, uint64_t version) const;
  void add(size_t number, const node_state& node, list which);
  void remove(size_t number, const std::vector<identity>& xs, list which);

  std::map<std::string, std::map<uint64_t, entry>> entries_;
  /// By node: bundles on disk, and in the cache.
  std::map<size_t, std::pair<std::vector<identity>, std::vector<identity>>>
    known_;
};

} // namespace millrace

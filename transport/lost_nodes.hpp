// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "transport/messages/cluster.hpp"

namespace millrace {

/// The latest nodes, up to `most`, that were lost or left and have not
/// returned. For status output.
class lost_nodes {
public:
  static constexpr size_t most = 64;

  void add(const member& node, std::string reason, timestamp when) {
    nodes_[node.name] = {node, std::move(reason), when};
    if (nodes_.size() > most)
      nodes_.erase(
        std::min_element(nodes_.begin(), nodes_.end(), [](auto& a, auto& b) {
          return a.second.when < b.second.when;
        }));
  }

  /// Returns false if the node was not in the list.
  bool erase(const std::string& node) { return nodes_.erase(node) != 0; }

  std::vector<lost_member> list(timestamp now) const {
    std::vector<lost_member> out;
    for (auto& [name, x] : nodes_)
      out.push_back({x.node, x.reason, to_us(now - x.when)});
    return out;
  }

private:
  struct entry {
    member node;
    std::string reason;
    timestamp when;
  };

  std::map<std::string, entry> nodes_;
};

} // namespace millrace

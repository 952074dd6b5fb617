// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transport/keys/key_book.hpp"
#include "transport/keys/key_pair.hpp"

namespace millrace {

/// The keys that a node of a cluster with keys has.
struct node_keys {
  role own_role = role::node;
  key_pair own;
  /// The cluster's own pair, on a node with endpoints for clients or operators.
  std::optional<key_pair> cluster;
  std::string list; ///< path of the list of allowed keys, which may change
  allowed_keys allowed;
};

/// The keys that a node needs.
struct node_keys_wanted {
  std::string folder;
  std::string node;
  bool controller = false;
  bool cluster_pair = false;
};

/// Reads a node's keys from a folder. Errors: bad_config with the file and the
/// fault: it is missing, is not secret, belongs to another node, has too low a
/// role, or is not on the list.
result<node_keys> read_node_keys(const node_keys_wanted& wanted);

} // namespace millrace

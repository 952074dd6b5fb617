// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transport/keys/key_book.hpp"
#include "transport/keys/key_pair.hpp"

namespace millrace {

/// What a node of a cluster with keys has of them.
struct node_keys {
  role own_role = role::node;
  key_pair own;
  /// The cluster's own, on a node where clients or operators connect.
  std::optional<key_pair> cluster;
  std::string list; ///< the file of allowed keys, which may change
  allowed_keys allowed;
};

/// What a node needs them for.
struct node_keys_wanted {
  std::string folder;
  std::string node;
  bool controller = false;
  bool cluster_pair = false;
};

/// Reads a node's keys out of a folder. Errors: bad_config, with the file and
/// what is wrong: one is not there or not secret, is another node's, has a role
/// that is too low, or is not on the list.
result<node_keys> read_node_keys(const node_keys_wanted& wanted);

} // namespace millrace

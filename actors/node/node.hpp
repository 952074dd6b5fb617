// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "config/config.hpp"

namespace millrace {

/// A node of a real cluster: the process's actor system, bus and HTTP endpoint,
/// and the supervisor with all actors below.
class node {
public:
  /// Builds and starts a node. Errors: bad_config when an address cannot be
  /// bound or another process uses the data directory; unavailable when the
  /// store of the node cannot be read.
  static result<std::unique_ptr<node>> start(const cluster_config& config,
                                             const std::string& name);

  /// Checks that a node of a cluster with keys finds its own keys. Errors: as
  /// read_node_keys.
  static result<void> check_keys(const cluster_config& config,
                                 const std::string& name);

  virtual ~node() = default;

  /// Accepts no new work and finishes accepted work; wait() then returns.
  virtual void drain() = 0;

  /// Blocks until the node has drained. Errors: conflict when the cluster has
  /// seen an equal or later start of this node and rejects this one. Unless
  /// that start is alive, the next start of this node will be accepted.
  virtual result<void> wait() = 0;

  /// Returns a sentence with the addresses of the node.
  virtual std::string describe() const = 0;
};

} // namespace millrace

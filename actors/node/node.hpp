// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "config/config.hpp"

namespace millrace {

/// A node runtime in the real world: the process's actor system, its bus, its
/// HTTP endpoint, and the supervisor with everything below it.
class node {
public:
  /// Builds and starts a node. Errors: bad_config when an address cannot be
  /// bound or another process uses the data directory; unavailable when its
  /// facts cannot be read.
  static result<std::unique_ptr<node>> start(const cluster_config& config,
                                             const std::string& name);

  /// Whether that node would find its keys, if the cluster has any. Errors: as
  /// read_node_keys.
  static result<void> check_keys(const cluster_config& config,
                                 const std::string& name);

  virtual ~node() = default;

  /// Takes no new work and finishes what there is; wait() then returns.
  virtual void drain() = 0;

  /// Returns when the node has drained. Errors: conflict when the cluster
  /// knows a start of this node that is not earlier, so that nobody listens to
  /// this one; unless that one is alive, the next start will be the later one.
  virtual result<void> wait() = 0;

  /// A sentence for people: where it listens.
  virtual std::string describe() const = 0;
};

} // namespace millrace

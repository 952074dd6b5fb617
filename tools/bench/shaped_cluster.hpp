// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/client.hpp"
#include "client/operator_client.hpp"
#include "millrace/child.hpp"

namespace millrace {

/// A node of a bench's cluster.
struct shaped_node {
  std::string roles;
  std::string models; ///< folder of bundles
  std::string device; ///< as YAML
};

/// Nodes on the hosts made by tests/bench/shaped_hosts, one on each host (h0,
/// h1, ...), with keys. The first node has the controller and, if used, the
/// gateway.
class shaped_cluster {
public:
  /// `more`: further YAML of the config. Errors: unavailable.
  static result<std::unique_ptr<shaped_cluster>>
  start(const std::string& folder, const std::vector<shaped_node>& nodes,
        const std::string& more);

  static std::string name_of(size_t host) { return "h" + std::to_string(host); }

  const std::string& folder() const { return folder_; }
  operator_client& shell() { return *shell_; }
  service& node(size_t host) { return *nodes_.at(host); }
  size_t size() const { return nodes_.size(); }

  /// Connects to the gateway on the first host. Errors: unavailable.
  result<client> connect() const;

private:
  explicit shaped_cluster(std::string folder) : folder_(std::move(folder)) {}

  void make_keys(size_t nodes) const;
  result<void> meet();

  std::string folder_;
  std::unique_ptr<operator_client> shell_;
  std::vector<std::unique_ptr<service>> nodes_;
};

} // namespace millrace

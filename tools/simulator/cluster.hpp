// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/scenario.hpp"
#include "simulator/machines.hpp"
#include "simulator/node.hpp"
#include "transport/simulated/links.hpp"

namespace millrace::simulator {

/// A simulated cluster: the production actors of every node, each node in a
/// process of its own, on one network in one world.
class cluster {
public:
  /// The scenario and the watcher must outlive the cluster.
  cluster(const loaded_scenario& what, uint64_t seed, watcher& seen_by);
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;

  virtual_world& world() { return world_; }
  simulated_network& network() { return network_; }
  simulated_links& links() { return links_; }
  simulated_bulk_hosts& bulk() { return bulk_; }

  /// Injects a bug, to test that the invariants find it.
  void plant(planted_bug bug) {
    links_.plant(bug);
    plan_.bug = bug;
  }

  /// Starts every node outside pools, in order of their names.
  void start();

  /// Whether a node is a machine of a pool.
  bool is_machine(const std::string& name) const { return yard_.has(name); }

  /// Kills a node, or a machine that boots.
  void kill(const std::string& name);
  /// Starts a node; a machine only if it is reserved and has booted.
  void start(const std::string& name);

  node& at(const std::string& name) { return *nodes_.at(name); }
  /// Nodes by name.
  const std::map<std::string, std::unique_ptr<node>>& nodes() const {
    return nodes_;
  }

private:
  virtual_world world_;
  simulated_network network_;
  simulated_links links_;
  simulated_bulk_hosts bulk_;
  contents contents_;
  machine_yard yard_;
  node_environment_plan plan_;
  std::map<std::string, std::unique_ptr<node>> nodes_; // destroyed first
};

} // namespace millrace::simulator

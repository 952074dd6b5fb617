// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/scenario.hpp"
#include "simulator/node.hpp"
#include "transport/simulated/links.hpp"

namespace millrace::simulator {

/// What happens in a simulated cluster, for whoever records or checks it. All
/// points in time are the world's.
class observer : public device_observer {
public:
  /// The final answer has reached the client.
  virtual void on_reply(const session& from, uint64_t id, infer_reply& x) = 0;
  virtual void on_operator_answer(const std::string& node, uint64_t id,
                                  const caf::message& x) {
    static_cast<void>(node), static_cast<void>(id), static_cast<void>(x);
  }
  virtual void on_link(const member& who, const member& whom, bool up) {
    static_cast<void>(who), static_cast<void>(whom), static_cast<void>(up);
  }
  virtual void on_delivered(const member& from, const member& to,
                            const header& what) {
    static_cast<void>(from), static_cast<void>(to), static_cast<void>(what);
  }
  /// A node's process was started, ended, paused or went on.
  virtual void on_node(const std::string& node, std::string_view what) {
    static_cast<void>(node), static_cast<void>(what);
  }
};

/// The whole of a simulated cluster: the production actors of every node, each
/// in a process of its own, on one network in one world.
class cluster : private simulated_outside {
public:
  /// The scenario and the observer outlive it.
  cluster(const loaded_scenario& what, uint64_t seed, observer& watcher);
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;
  ~cluster() override;

  virtual_world& world() { return world_; }
  simulated_network& network() { return network_; }
  simulated_links& links() { return links_; }
  const loaded_scenario& what() const { return what_; }

  /// Gives the world a bug, to see that it is found.
  void plant(planted_bug x) {
    links_.plant(x);
    plan_.bug = x;
  }

  /// Starts every node, in order of their names.
  void start();

  node& at(const std::string& name) { return *nodes_.at(name); }
  /// By name.
  const std::map<std::string, std::unique_ptr<node>>& nodes() const {
    return nodes_;
  }

private:
  void on_reply(const session& to, uint64_t id, infer_reply x) override;
  void on_models(const session& to, uint64_t id, model_list_reply x) override;
  void on_operator_answer(const std::string& node, uint64_t id,
                          const caf::message& x) override;
  void on_link(const member& who, const member& whom, bool up) override;
  void on_delivered(const member& from, const member& to,
                    const header& what) override;

  const loaded_scenario& what_;
  observer& watcher_;
  virtual_world world_;
  simulated_network network_;
  simulated_links links_;
  node_ground_plan plan_;
  std::map<std::string, std::unique_ptr<node>> nodes_;
};

} // namespace millrace::simulator

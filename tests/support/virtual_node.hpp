// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/virtual_world.hpp"
#include "transport/bus.hpp"
#include "transport/switchboard.hpp"

namespace millrace::test {

class virtual_net;

/// A node's bus in a virtual world: the production switchboard over a network
/// that delivers at once.
class virtual_bus : public switchboard_bus {
public:
  virtual_bus(virtual_world& world, virtual_net& net, member self);

  const member& self() const override { return self_; }
  void subscribe(caf::strong_actor_ptr x) override;
  void serve_clients(caf::strong_actor_ptr x) override { gateway_ = x; }
  void answer(const session&, client_tag tag, infer_reply x) override {
    replies[tag.id].push_back(std::move(x));
  }
  void answer(const session&, client_tag, model_list_reply x) override {
    models = std::move(x);
  }

  /// A client's request, as if it had come in.
  void request(uint64_t id, infer x, microseconds deadline = 10s,
               const std::string& connection = "client");

  std::map<uint64_t, std::vector<infer_reply>> replies;
  model_list_reply models;

private:
  friend class virtual_net;
  bool carry(const std::string& node, uint64_t incarnation,
             wire_message x) override;

  virtual_world& world_;
  virtual_net& net_;
  member self_;
  std::vector<caf::strong_actor_ptr> subscribers_;
  caf::strong_actor_ptr gateway_;
};

/// Nodes that are all linked with each other.
class virtual_net {
public:
  explicit virtual_net(virtual_world& world) : world_(world) {}

  virtual_bus& add(const std::string& name, std::vector<std::string> roles);

  /// Cuts a node off: the others see it go down, what it sends is lost.
  void cut(const std::string& name);

private:
  friend class virtual_bus;
  void tell(virtual_bus& to, caf::message x);

  virtual_world& world_;
  std::map<std::string, std::unique_ptr<virtual_bus>> nodes_;
  std::map<std::string, bool> cut_;
};

} // namespace millrace::test

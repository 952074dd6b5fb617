// SPDX-License-Identifier: Apache-2.0
#include <ctime>
#include <limits>

#include <doctest/doctest.h>

#include "tests/support/guarded_cluster.hpp"
#include "transport/keys/node_keys.hpp"
#include "transport/messages/all.hpp"
#include "transport/zmq/zmq_bus.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// A process with the key of a worker that can send any message: a bus without
/// the actors of a node.
class thief {
public:
  thief(guarded_cluster& c, const std::string& node, uint64_t incarnation) {
    auto keys = read_node_keys({c.cluster.folder() + "/keys", node});
    REQUIRE(keys);
    zmq_bus_settings settings;
    settings.cluster = "test";
    settings.self = {node, incarnation, "", {"worker"}, ""};
    settings.peers = "ipc://" + (folder_ / node);
    for (auto peer : {"ctl", "gw"})
      settings.seeds.push_back({c.cluster.endpoint(peer, "peers"), peer});
    settings.keys = std::move(*keys);
    auto x = zmq_bus::open(system_, std::move(settings), counts_);
    REQUIRE(x);
    net_ = std::move(*x);
    net_->start();
  }

  ~thief() { net_->stop(); }

  bool meets(const std::string& node) {
    return eventually([&] { return net_->resolve(node + "/gateway"); }, 5s);
  }

  /// Announces a replica, with this process as its executor.
  void announce(const std::string& name, const std::string& model) {
    replica_ready x;
    x.name = name;
    x.node = net_->self().name;
    x.device = "cpu0";
    x.info.model = model;
    x.info.version = 1;
    x.info.signature.inputs = {{"x", dtype::f32, {-1, 4}}};
    x.info.signature.outputs = {{"y", dtype::f32, {-1, 4}}};
    x.limits.credit = 64;
    auto replica = system_.spawn([this](caf::event_based_actor*) {
      return caf::behavior{[this](run_batch&) { ++batches; }};
    });
    x.handle = caf::actor_cast<caf::strong_actor_ptr>(replica);
    net_->publish(name, x.handle);
    caf::anon_send(caf::actor_cast<caf::actor>(net_->resolve("gw/gateway")),
                   std::move(x));
  }

  /// Sends a message to an actor of a node.
  template <class T>
  void send(const std::string& to, T x) {
    caf::anon_send(caf::actor_cast<caf::actor>(net_->resolve(to)),
                   std::move(x));
  }

  std::atomic<int> batches{0}; ///< batches received by this process

private:
  temporary_directory folder_;
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  metrics counts_{recording::off};
  std::unique_ptr<zmq_bus> net_;
};

infer row_for(const std::string& model) {
  return ask(model, floats({1, 4}));
}

} // namespace

TEST_CASE("P13: a stolen worker key gets no replica into a gateway and no"
          " request and no model of another tenant") {
  guarded_cluster c;
  c.keys({"new", "rogue", "--role", "node"});
  auto app = c.cluster.connect_client();
  auto acme = client::connect(c.acme_endpoint(), 2s, c.key("acme-app"));
  REQUIRE(acme);
  ::usleep(1'200'000); // nodes read the list of keys twice a second
  thief rogue{c, "rogue", 1};
  REQUIRE(rogue.meets("gw"));
  // A replica number that was never assigned, and the number that w1 runs.
  for (auto name : {"affine.1.77", "affine.1.1", "identity.1.1"})
    rogue.announce(name, std::string{name}.substr(0, std::strlen(name) - 4));
  CHECK(eventually(
    [&] { return c.cluster.logged("gw", "gateway.replica_not_assigned") >= 3; },
    5s));
  for (int i = 0; i < 20; ++i) {
    CHECK(app.infer_one(row_for("affine")).status == ec::unknown_model);
    CHECK(app.infer_one(row_for("identity")).status == ec::ok);
    CHECK(acme->infer_one(row_for("affine")).status == ec::ok);
  }
  CHECK(app.models()->size() == 1);
  CHECK(rogue.batches == 0);
}

TEST_CASE("P13: a stolen key cannot send a report for another node") {
  guarded_cluster c;
  c.keys({"new", "rogue", "--role", "node"});
  ::usleep(1'200'000); // nodes read the list of keys twice a second
  thief rogue{c, "rogue", 1};
  REQUIRE(rogue.meets("ctl"));
  inventory state; // w1 without replicas
  state.state.node = {"w1", 1'000'000, "", {"worker"}, ""};
  rogue.send("ctl/placement", state);
  demand_report load;
  load.node = "gw";
  load.incarnation = 1'000'000;
  rogue.send("ctl/cluster_state", load);
  content_report contents;
  contents.node = "w1";
  rogue.send("ctl/chains", contents);
  CHECK(eventually(
    [&] { return c.cluster.logged("ctl", "reported as node") == 3; }, 5s));
  CHECK(c.cluster.wait_ready());
  auto app = c.cluster.connect_client();
  CHECK(app.infer_one(row_for("identity")).status == ec::ok);
}

TEST_CASE("P13: a stolen key with the last incarnation does not lock its node"
          " out") {
  guarded_cluster c;
  c.cluster["w1"].end(SIGKILL);
  auto claim = [&](uint64_t incarnation) {
    thief copy{c, "w1", incarnation};
    return copy.meets("gw");
  };
  SUBCASE("an impossible incarnation is refused") {
    CHECK_FALSE(claim(std::numeric_limits<uint64_t>::max()));
    CHECK(c.cluster.logged("gw", "one start a second since 1970") == 1);
  }
  SUBCASE("the node continues from a possible incarnation") {
    CHECK(claim(static_cast<uint64_t>(std::time(nullptr)) + 3600));
    c.cluster.start("w1");
    CHECK(c.cluster["w1"].wait() != 0);
    CHECK(c.cluster.logged("w1", "its count of starts has been corrected")
          == 1);
  }
  c.cluster.start("w1");
  CHECK(c.cluster.wait_ready());
}

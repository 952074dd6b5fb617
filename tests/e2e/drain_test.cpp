// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>

#include "tests/support/canary_load.hpp"
#include "tests/support/http.hpp"
#include "tests/support/live_cluster.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Drains a node and starts it again.
void restart(live_cluster& c, const std::string& node) {
  c[node].signal(SIGTERM);
  REQUIRE(c[node].wait() == 0);
  c.start(node);
}

/// Waits until a worker has a replica again, because the next drain needs a
/// replica on another node.
void wait_for_replica(live_cluster& c, const std::string& worker) {
  REQUIRE(c.wait_status(worker, [](const node_status& s) {
    return std::any_of(s.replicas.begin(), s.replicas.end(), [](auto& r) {
      return r.state == replica_condition::ready;
    });
  }));
}

} // namespace

TEST_CASE("P16: a drained worker loses no request") {
  live_cluster c{apart(), "  - {model: identity, replicas: 2}\n", bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  canary_load load{c.connect_client(), "identity", 32};
  load.run(500ms);
  c["w1"].signal(SIGTERM);
  load.run(2s);
  CHECK(c["w1"].wait() == 0);
  load.finish();
  report(load);
  CHECK(load.statuses[ec::ok] == load.submitted);
  CHECK(load.foreign == 0);
}

TEST_CASE("P16: a drain and a request end in time though the model never"
          " ends") {
  auto nodes = apart("    roles: [worker]\n    drain_timeout: 500ms\n"
                     "    devices: [{type: cpu, isolation: thread}]\n");
  live_cluster c{nodes, "  - {model: lasting, device: cpu}\n", bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  auto gateway = c.connect_client();
  auto y = gateway.infer_one(ask("lasting", floats({1, 4}, 1e10f)), 500ms);
  CHECK(y.status == ec::deadline_exceeded);
  auto begin = steady_now();
  for (auto worker : {"w1", "w2"})
    c[worker].signal(SIGTERM);
  std::multiset<int> statuses{c["w1"].wait(), c["w2"].wait()};
  CHECK(steady_now() - begin < 10s);
  CHECK(statuses == std::multiset<int>{0, 1}); // 1: ended by force
}

TEST_CASE("P16: a node with all roles answers its accepted requests before it"
          " ends") {
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"}},
                 "  - {model: lasting}\n",
                 bundles};
  auto gateway = c.start_and_meet();
  const int requests = 50;
  for (int i = 0; i < requests; ++i)
    gateway.submit(ask("lasting", floats({1, 4}, 300)), 20s);
  REQUIRE(gateway.receive(10s)); // the other requests wait behind it
  c["all"].signal(SIGTERM);
  for (int i = 1; i < requests; ++i) {
    auto x = gateway.receive(10s);
    REQUIRE(x);
    CHECK(x->reply.status == ec::ok);
  }
  CHECK(c["all"].wait() == 0);
}

TEST_CASE("P16: a client can read an unread answer while its gateway drains") {
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"}},
                 "  - {model: identity}\n",
                 bundles};
  auto gateway = c.start_and_meet();
  gateway.submit(ask("identity", floats({1, 4})), 5s);
  ::usleep(100'000);
  c["all"].signal(SIGTERM);
  REQUIRE(eventually([&] { return c.logged("all", "draining") == 1; }, 5s));
  ::usleep(200'000);
  auto x = gateway.receive(1s);
  REQUIRE(x);
  CHECK(x->reply.status == ec::ok);
  CHECK(c["all"].wait() == 0);
}

TEST_CASE("P16: a node that waits for its own gateway accepts no requests of"
          " other gateways") {
  auto both = "    roles: [gateway, controller, worker]\n"
              "    devices: [{type: cpu, lanes: 2}]\n";
  live_cluster c{
    {{"a", both}, {"b", both}},
    "  - {model: identity, replicas: 2}\n  - {model: lasting, replicas: 2}\n",
    bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  auto at = [&](const std::string& node) {
    auto out = client::connect(c.endpoint(node, "clients"), 10s);
    REQUIRE(out);
    return std::move(*out);
  };
  auto at_a = at("a"), at_b = at("b");
  REQUIRE(eventually(
    [&] {
      auto list = at_b.models();
      return list && list->size() == 2;
    },
    10s));
  auto replicas_that_answer = [&] {
    std::set<std::string> out;
    for (int i = 0; i < 64; ++i)
      at_b.submit(ask("identity", floats({1, 4})), 5s);
    for (int i = 0; i < 64; ++i)
      if (auto x = at_b.receive(10s); x && x->reply.status == ec::ok)
        out.insert(x->reply.replica);
    return out;
  };
  REQUIRE(eventually([&] { return replicas_that_answer().size() == 2; }, 10s));
  at_a.submit(ask("lasting", floats({1, 4}, 1e10f)), 4s);
  // A later request is answered, so the gateway has accepted the first one.
  REQUIRE(at_a.infer_one(ask("identity", floats({1, 4}))).status == ec::ok);
  c["a"].signal(SIGTERM);
  CHECK(eventually([&] { return replicas_that_answer().size() == 1; }, 2s));
  CHECK_FALSE(at_a.receive(100ms)); // the node waits for this request
  auto x = at_a.receive(10s);
  REQUIRE(x);
  CHECK(x->reply.status == ec::deadline_exceeded);
  CHECK(c["a"].wait() == 0);
}

TEST_CASE("P16: a draining gateway that refuses requests reports not ready") {
  auto http = free_port();
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"
                          "    devices: [{type: cpu, lanes: 2}]\n"
                          "    http: 127.0.0.1:"
                            + std::to_string(http) + "\n"}},
                 "  - {model: identity}\n  - {model: lasting}\n",
                 bundles};
  auto gateway = c.start_and_meet(2);
  // The drain waits for this request.
  gateway.submit(ask("lasting", floats({1, 4}, 1e10f)), 2s);
  auto not_ready = [&] {
    return http_get(http, "/readyz").find(" 503") != std::string::npos;
  };
  REQUIRE(eventually([&] { return !not_ready(); }, 5s));
  c["all"].signal(SIGTERM);
  auto status = ec::ok;
  while (status == ec::ok)
    status = gateway.infer_one(ask("identity", floats({1, 4})), 1s).status;
  CHECK(status == ec::unavailable);
  CHECK(not_ready());
  CHECK(c["all"].wait() == 0);
}

TEST_CASE("P16: workers drained and restarted in turn lose no request") {
  live_cluster c{apart(), "  - {model: identity, replicas: 2}\n", bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  canary_load load{c.connect_client(), "identity", 16};
  load.start();
  const int drains = 6 * times();
  for (int i = 0; i < drains; ++i) {
    std::string node = i % 2 == 0 ? "w1" : "w2";
    restart(c, node);
    wait_for_replica(c, "w1");
    wait_for_replica(c, "w2");
  }
  load.stop();
  load.finish();
  report(load);
  MESSAGE(drains << " drains");
  CHECK(c.logged("gw", "reason=left") == static_cast<size_t>(drains));
  CHECK(load.statuses[ec::ok] == load.submitted);
  CHECK(load.surprises == 0);
  CHECK(load.foreign == 0);
}

TEST_CASE("P16: a rolling restart of workers and controller loses no request") {
  live_cluster c{apart(), "  - {model: identity, replicas: 2}\n", bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  canary_load load{c.connect_client(), "identity", 16};
  load.start();
  for (std::string node : {"ctl", "w1", "w2", "ctl"}) {
    restart(c, node);
    REQUIRE(c.wait_ready());
    wait_for_replica(c, "w1");
    wait_for_replica(c, "w2");
  }
  load.stop();
  load.finish();
  report(load);
  CHECK(load.submitted > 100);
  CHECK(load.statuses[ec::ok] == load.submitted);
}

TEST_CASE("P16: a gateway that is drained and restarted refuses requests and"
          " does not disturb clients of another gateway") {
  auto nodes = apart();
  nodes["gw2"] = nodes["gw"];
  live_cluster c{nodes, "  - {model: identity, replicas: 2}\n", bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  auto at = [&](const std::string& node) {
    auto gateway = client::connect(c.endpoint(node, "clients"), 10s);
    REQUIRE(gateway);
    REQUIRE(eventually([&] { return !gateway->models()->empty(); }, 10s));
    return std::move(*gateway);
  };
  canary_load of_it{at("gw"), "identity", 16},
    of_other{at("gw2"), "identity", 16};
  of_it.start();
  of_other.start();
  const int drains = 3 * times();
  for (int i = 0; i < drains; ++i) {
    auto before = of_it.good.load();
    restart(c, "gw");
    CHECK(eventually([&] { return of_it.good > before + 100; }, 10s));
  }
  for (auto* load : {&of_it, &of_other}) {
    load->stop();
    load->finish();
    report(*load);
    CHECK(load->answered == load->submitted);
    CHECK(load->surprises == 0);
    CHECK(load->foreign == 0);
  }
  MESSAGE(drains << " drains");
  CHECK(of_it.statuses[ec::ok] + of_it.statuses[ec::unavailable]
        == of_it.submitted);
  CHECK(of_other.statuses[ec::ok] == of_other.submitted);
}

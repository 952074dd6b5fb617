// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/builders.hpp"
#include "tests/support/children.hpp"
#include "tests/support/environment_variable.hpp"
#include "tests/support/live_cluster.hpp"

/// \file
/// Real nodes with fake GPUs that fail like real GPUs.

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

/// Actions of the GPU selected by the first number of an input.
constexpr float loses_context = 1000, has_no_memory = 1001, hangs = 1002,
                takes_a_second = 1003;

const std::string on_two_gpus = "  - {model: identity, device: gpu0}\n"
                                "  - {model: relay, device: gpu1}\n"
                                "  - {model: lasting, device: gpu0}\n";

/// A worker with two GPUs and a worker with one GPU.
class cluster_with_gpus {
public:
  explicit cluster_with_gpus(const std::string& isolation,
                             const std::string& models = on_two_gpus)
    : backend_("MILLRACE_BACKEND", FAKE_GPU_BACKEND),
      cluster_{{{"front", "    roles: [gateway, controller]\n"},
                {"w1", worker(isolation, 2)},
                {"w2", worker(isolation, 1)}},
               models,
               bundles} {}

  live_cluster& operator*() { return cluster_; }
  live_cluster* operator->() { return &cluster_; }

private:
  static std::string worker(const std::string& isolation, int gpus) {
    std::string out = "    roles: [worker]\n    devices:\n";
    for (int i = 0; i < gpus; ++i) {
      auto n = std::to_string(i);
      out += "      - {type: cuda, id: gpu" + n + ", isolation: " + isolation
             + ", cuda: {gpu: " + n + "}}\n";
    }
    return out;
  }

  environment_variable backend_;
  live_cluster cluster_;
};

infer ask_with(const std::string& model, float x) {
  return test::ask(model, floats({1, 4}, x));
}

ec status_of(client& gateway, const std::string& model, float x) {
  return gateway.infer_one(ask_with(model, x), 10s).status;
}

} // namespace

TEST_CASE("P24: an error of a GPU replaces only the process that used it and"
          " affects no other process or GPU") {
  for (std::string isolation : {"process", "device"}) {
    CAPTURE(isolation);
    cluster_with_gpus c{isolation};
    auto gateway = c->start_and_meet(3);
    auto others = c->connect_client();
    auto before = grandchildren_of((*c)["w1"].pid());
    auto begin = steady_now();
    gateway.submit(ask_with("identity", loses_context), 10s);
    size_t elsewhere = 0, failed = 0;
    for (auto end = begin + 1s; steady_now() < end; ++elsewhere)
      failed += status_of(others, "relay", 1) != ec::ok;
    CHECK(failed == 0);
    CHECK(elsewhere > 20);
    auto x = gateway.receive(10s);
    REQUIRE(x);
    CHECK(x->reply.status == ec::poison); // tried twice
    CHECK(x->reply.error.find("CUDA error 700") != std::string::npos);
    CHECK(status_of(gateway, "identity", 1) == ec::ok);
    CHECK(status_of(gateway, "lasting", 1) == ec::ok);
    CHECK(steady_now() - begin < 2 * 2500ms);
    CHECK(grandchildren_of((*c)["w1"].pid()) != before);
  }
}

TEST_CASE("P24: a request that runs beside a request that ends the process is"
          " answered and is not poison") {
  cluster_with_gpus c{"device", "  - {model: identity, device: gpu0}\n"
                                "  - {model: lasting, device: gpu0}\n"};
  auto gateway = c->start_and_meet(2);
  auto culprit = c->connect_client();
  gateway.submit(ask_with("lasting", takes_a_second), 10s);
  auto operators = c->connect_operator("front");
  REQUIRE(eventually(
    [&] {
      auto x =
        operators.ask<queue_status>("front/router/lasting.1", get_queue{});
      return x && x->running == 1;
    },
    10s));
  CHECK(status_of(culprit, "identity", loses_context) == ec::poison);
  auto x = gateway.receive(10s);
  REQUIRE(x);
  CHECK(x->reply.status == ec::ok);
  CHECK(status_of(culprit, "identity", 1) == ec::ok);
  CHECK(c->log_of("front").find("quarantine model=lasting")
        == std::string::npos);
}

TEST_CASE("P24: a device that cannot be opened is out of service with the"
          " reason") {
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"
                          "    devices: [{type: cpu}, {type: cuda}]\n"}},
                 "  - {model: identity}\n",
                 bundles};
  auto gateway = c.start_and_meet(1); // on the other device
  CHECK(status_of(gateway, "identity", 1) == ec::ok);
  auto status =
    c.connect_operator("all").ask<node_status>("./supervisor", get_status{});
  REQUIRE(status);
  REQUIRE(status->troubles.size() == 1);
  INFO(status->troubles[0]);
  CHECK(status->troubles[0].find("device cuda0 is out of service: ") == 0);
  CHECK(status->unusable == std::vector<std::string>{"cuda0"});
  auto seen = c.folder() + "/devices.log";
  process shell{{SHELL_PROGRAM, "--node", c.endpoint("all", "operators"),
                 "devices", "--json"},
                seen};
  CHECK(shell.wait() == 0);
  auto text = read_file(seen, 1 << 20);
  REQUIRE(text);
  auto table = nlohmann::json::parse(*text);
  REQUIRE(table["devices"].size() == 2);
  for (auto& x : table["devices"])
    CHECK(x["usable"] == (x["device"]["id"] == "cpu0"));
}

TEST_CASE("P24: a lack of GPU memory fails only the request that needs it") {
  cluster_with_gpus c{"auto"};
  auto gateway = c->start_and_meet(3);
  auto processes = grandchildren_of((*c)["w1"].pid());
  auto x = gateway.infer_one(ask_with("identity", has_no_memory), 10s);
  CHECK(x.status == ec::overloaded);
  CHECK(x.error.find("out of memory") != std::string::npos);
  CHECK(status_of(gateway, "identity", 1) == ec::ok);
  CHECK(grandchildren_of((*c)["w1"].pid()) == processes);
}

TEST_CASE("P24: a request that hangs on a GPU is ended at its deadline with its"
          " own process") {
  cluster_with_gpus c{"auto"};
  auto gateway = c->start_and_meet(3);
  auto begin = steady_now();
  auto x = gateway.infer_one(ask_with("lasting", hangs), 500ms);
  CHECK(x.status == ec::deadline_exceeded);
  CHECK(status_of(gateway, "relay", 1) == ec::ok);
  CHECK(status_of(gateway, "identity", 1) == ec::ok);
  CHECK(status_of(gateway, "lasting", 1) == ec::ok);
  CHECK(steady_now() - begin < 5s);
}

TEST_CASE("P24: a GPU lost in threads of its node is out of service and its"
          " replicas start on another device") {
  cluster_with_gpus c{"thread", "  - {model: identity}\n  - {model: relay}\n"};
  auto gateway = c->start_and_meet(2);
  auto x = gateway.infer_one(ask_with("identity", loses_context), 10s);
  CHECK(x.status == ec::poison); // tried on two of the three GPUs
  CHECK(status_of(gateway, "identity", 1) == ec::ok);
  CHECK(status_of(gateway, "relay", 1) == ec::ok);
  size_t out = 0;
  for (auto node : {"w1", "w2"}) {
    auto status =
      c->connect_operator(node).ask<node_status>("./supervisor", get_status{});
    REQUIRE(status);
    for (auto& y : status->troubles)
      out += y.find("can use it no more, until it is started again")
             != std::string::npos;
  }
  CHECK(out == 2);
  // A restarted node has all its devices again.
  for (auto node : {"w1", "w2"}) {
    (*c)[node].end(SIGKILL);
    c->start(node);
  }
  CHECK(eventually([&] { return status_of(gateway, "identity", 1) == ec::ok; },
                   20s));
}

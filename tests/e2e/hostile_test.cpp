// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <unistd.h>

#include "tests/support/builders.hpp"
#include "tests/support/children.hpp"
#include "tests/support/distribution.hpp"
#include "tests/support/live_cluster.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

infer ask_with(const std::string& model, float x) {
  return test::ask(model, floats({1, 4}, x));
}

/// A gateway with a controller, and workers of one lane.
std::map<std::string, std::string> front_and(size_t workers,
                                             const std::string& more = {}) {
  std::map<std::string, std::string> out{
    {"front", "    roles: [gateway, controller]\n"}};
  for (size_t i = 1; i <= workers; ++i)
    out["w" + std::to_string(i)] = "    roles: [worker]\n" + more;
  return out;
}

/// Sends requests at a constant rate during a disturbance, and measures the
/// share that is answered in time.
class paced_load {
public:
  explicit paced_load(client gateway) : gateway_(std::move(gateway)) {}

  void run(microseconds length) {
    for (auto end = steady_now() + length; steady_now() < end;) {
      gateway_.submit(ask_with("identity", 1), 500ms);
      ++submitted;
      for (auto next = steady_now() + 10ms; steady_now() < next;)
        if (auto x = gateway_.receive(1ms))
          good += x->reply.status == ec::ok;
    }
    while (gateway_.outstanding() > 0)
      if (auto x = gateway_.receive(1s))
        good += x->reply.status == ec::ok;
  }

  double share() const {
    return static_cast<double>(good) / static_cast<double>(submitted);
  }

  size_t submitted = 0;
  size_t good = 0;

private:
  client gateway_;
};

} // namespace

TEST_CASE("P14: a bundle with code that opens files is served only as trusted"
          " code") {
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"}},
                 "  - {model: identity}\n  - {model: prying}\n",
                 bundles};
  c.start_all();
  auto gateway = c.connect_client();
  CHECK(eventually(
    [&] {
      return c.logged("all", "calls torch.from_file, which opens files") > 0;
    },
    20s));
  CHECK(eventually(
    [&] {
      return gateway.infer_one(ask_with("identity", 0), 5s).status == ec::ok;
    },
    10s));
  CHECK(gateway.infer_one(ask_with("prying", 0), 1s).status != ec::ok);
}

TEST_CASE("P14: the system denies each action that a hostile model attempts") {
  // Trusted code is not checked, but it still runs in a sandbox.
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"
                          "    devices: [{type: cpu, isolation: process}]\n"}},
                 "  - {model: prying, trusted: true}\n",
                 bundles};
  auto gateway = c.start_and_meet(1);
  // Reads a file, creates a file, opens its own memory.
  for (float deed : {1.0f, 2.0f, 4.0f}) {
    auto y = gateway.infer_one(ask_with("prying", deed), 10s);
    INFO("deed " << deed << ": " << y.error);
    CHECK(y.status == ec::internal);
    CHECK(y.error.find("ermitted") != std::string::npos);
  }
  // Saves a tensor, which reports no error.
  gateway.infer_one(ask_with("prying", 3), 10s);
  CHECK(::access("/tmp/millrace-prying", F_OK) != 0);
  CHECK(gateway.infer_one(ask_with("prying", 0), 10s).status == ec::ok);
}

TEST_CASE("P14: models that loop do not reduce the goodput of the other models"
          " of their node") {
  auto nodes = front_and(1);
  nodes["w1"] += "    devices: [{type: cpu, lanes: 2}]\n";
  live_cluster c{nodes, "  - {model: identity}\n  - {model: lasting}\n",
                 bundles};
  auto gateway = c.start_and_meet(2);
  paced_load load{c.connect_client()};
  gateway.submit(ask_with("lasting", 2e9f), 1s);
  load.run(3s);
  auto x = gateway.receive(5s);
  REQUIRE(x);
  CHECK(x->reply.status == ec::deadline_exceeded);
  MESSAGE("good: " << load.good << " of " << load.submitted);
  CHECK(load.share() >= .95);
  CHECK(c.log_of("w1").find("took too long") != std::string::npos);
  // The model that looped is served again.
  CHECK(eventually(
    [&] {
      return gateway.infer_one(ask_with("lasting", -10), 5s).status == ec::ok;
    },
    10s));
}

TEST_CASE("P14: a cancelled loop does not block other requests until its"
          " deadline") {
  live_cluster c{front_and(1), "  - {model: lasting}\n", bundles};
  auto gateway = c.start_and_meet(1);
  auto loop = gateway.submit(ask_with("lasting", 2e9f), 10min);
  std::this_thread::sleep_for(300ms);
  gateway.cancel(loop);
  auto begin = steady_now();
  CHECK(gateway.infer_one(ask_with("lasting", -10), 1min).status == ec::ok);
  CHECK(steady_now() - begin < 20s); // includes loading the model again
  CHECK(c.log_of("w1").find("no request waits for") != std::string::npos);
}

TEST_CASE("P15: a request that ends the process of its model is tried at most"
          " twice and the rest of the node serves") {
  live_cluster c{front_and(2),
                 "  - {model: identity, replicas: 2}\n"
                 "  - {model: fatal, replicas: 2}\n",
                 bundles};
  auto gateway = c.start_and_meet(2);
  paced_load load{c.connect_client()};
  gateway.submit(ask_with("fatal", 1000), 10s);
  load.run(2s);
  auto first = gateway.receive(10s);
  REQUIRE(first);
  CHECK(first->reply.status == ec::poison);
  auto lost = [&] {
    return c.logged("w1", "instance_lost") + c.logged("w2", "instance_lost");
  };
  CHECK(lost() == 2);
  CHECK(load.share() >= .95);
  auto begin = steady_now();
  auto again = gateway.infer_one(ask_with("fatal", 1000), 10s);
  CHECK(again.status == ec::poison);
  CHECK(steady_now() - begin < 500ms);
  CHECK(lost() == 2);
  CHECK(c.log_of("front").find("router.poison") != std::string::npos);
  CHECK(eventually(
    [&] {
      return gateway.infer_one(ask_with("fatal", 1), 5s).status == ec::ok;
    },
    10s));
}

TEST_CASE("P24: models of a lost shared process get another within 2.5 s and"
          " only the model that was running counts as faulty") {
  auto nodes = front_and(1);
  nodes["w1"] += "    devices: [{type: cpu, lanes: 2, isolation: device}]\n";
  live_cluster c{nodes,
                 "  - {model: identity}\n"
                 "  - {model: affine}\n"
                 "  - {model: fatal}\n",
                 bundles};
  auto gateway = c.start_and_meet(3);
  auto there = grandchildren_of(c["w1"].pid());
  REQUIRE(there.size() == 1);
  // The fatal request ends its process twice, and the other models with it.
  auto begin = steady_now();
  CHECK(gateway.infer_one(ask_with("fatal", 1000), 10s).status == ec::poison);
  for (auto model : {"identity", "affine"})
    CHECK(gateway.infer_one(ask_with(model, 1), 10s).status == ec::ok);
  CHECK(steady_now() - begin < 2 * 2500ms);
  CHECK_FALSE(grandchildren_of(c["w1"].pid()).contains(*there.begin()));
  // The first time the process was shared, the second time it was its own.
  CHECK(c.logged("w1", "error   replica.lost replica=fatal") == 1);
  for (std::string model : {"identity", "affine"})
    CHECK(c.logged("w1", "warning replica.lost replica=" + model) == 1);
}

TEST_CASE("P4: a hanging process of a model is fenced and its requests are run"
          " on another replica") {
  live_cluster c{front_and(2), "  - {model: identity, replicas: 2}\n", bundles};
  auto gateway = c.start_and_meet(1);
  std::vector<microseconds> waits;
  const int pauses = 5 * times();
  pid_t hung = 0;
  for (int i = 0; i < pauses; ++i) {
    // The process that replaced the last one.
    REQUIRE(eventually(
      [&] {
        auto there = grandchildren_of(c["w1"].pid());
        return there.size() == 1 && !there.contains(hung);
      },
      40s));
    hung = *grandchildren_of(c["w1"].pid()).begin();
    REQUIRE(c.wait_ready(40s));
    REQUIRE(::kill(hung, SIGSTOP) == 0);
    // Both replicas get one request, unless the healthy replica answers the
    // first before the second is dispatched. The request at the hung replica
    // waits.
    auto begin = steady_now();
    for (int tries = 0; tries < 20 && steady_now() - begin < 200ms; ++tries) {
      begin = steady_now();
      for (int k = 0; k < 2; ++k)
        gateway.submit(ask_with("identity", 1), 10s);
      for (int k = 0; k < 2; ++k) {
        auto x = gateway.receive(10s);
        REQUIRE(x);
        CHECK(x->reply.status == ec::ok);
      }
    }
    waits.push_back(to_us(steady_now() - begin));
    CHECK_FALSE(gateway.receive(0ms));
    ::kill(hung, SIGCONT);
  }
  MESSAGE("answered after " << pauses << " pauses: " << distribution(waits));
  CHECK(most_of(waits) < 1s);
}

TEST_CASE("P4: a process of a model without progress is given up long before"
          " the deadline of its request") {
  live_cluster c{front_and(2, "    devices: [{type: cpu, run_limit: 300ms}]\n"),
                 "  - {model: lasting, replicas: 2}\n", bundles};
  auto gateway = c.start_and_meet(1);
  auto begin = steady_now();
  auto x = gateway.infer_one(ask_with("lasting", 1e10f), 60s);
  CHECK(x.status == ec::poison); // tried twice, on different workers
  CHECK(steady_now() - begin < 10s);
  CHECK(gateway.infer_one(ask_with("lasting", 1), 10s).status == ec::ok);
}

TEST_CASE("P4: a hanging request leaves the other requests of its batch time to"
          " run alone") {
  live_cluster c{front_and(2),
                 "  - {model: lasting, replicas: 2, policy: {batch_delay: 50ms,"
                 " batch: 8}}\n",
                 bundles};
  auto gateway = c.start_and_meet(1);
  constexpr size_t others = 7;
  auto hangs_for = 6s;
  SUBCASE("its deadline equals theirs") {
  }
  SUBCASE("its deadline is later than theirs") {
    hangs_for = 60s;
  }
  SUBCASE("other requests have run before") {
    std::set<std::string> replicas;
    while (replicas.size() < 2)
      replicas.insert(gateway.infer_one(ask_with("lasting", 1), 6s).replica);
  }
  auto hangs = gateway.submit(ask_with("lasting", 1e12f), hangs_for);
  for (size_t i = 0; i < others; ++i)
    gateway.submit(ask_with("lasting", 1), 6s);
  size_t good = 0;
  for (size_t answered = 0; answered < others;) {
    auto x = gateway.receive(10s);
    REQUIRE(x);
    if (x->id == hangs) {
      CHECK(x->reply.status == ec::deadline_exceeded);
      continue;
    }
    ++answered;
    good += x->reply.status == ec::ok;
  }
  // One request may wait behind the repetition of the hanging request.
  CHECK(good >= others - 1);
}

TEST_CASE("P15: a request lost with two killed nodes is not poison") {
  live_cluster c{front_and(1), "  - {model: lasting}\n", bundles};
  auto gateway = c.start_and_meet(1);
  gateway.submit(ask_with("lasting", 1e12f), 60s);
  for (int i = 0; i < 2; ++i) {
    std::this_thread::sleep_for(300ms); // it runs or is dispatched by then
    c["w1"].end(SIGKILL);
    if (i == 0) {
      c.start("w1");
      REQUIRE(c.wait_ready(40s));
    }
  }
  auto x = gateway.receive(20s);
  REQUIRE(x);
  CHECK(x->reply.status == ec::unavailable);
  CHECK(x->reply.error.find("which had failed before") != std::string::npos);
}

TEST_CASE("P15: a killed node leaves no model process behind") {
  live_cluster c{front_and(1), "  - {model: identity}\n  - {model: lasting}\n",
                 bundles};
  auto gateway = c.start_and_meet(2);
  gateway.submit(ask_with("lasting", 2e9f), 60s);
  auto processes = grandchildren_of(c["w1"].pid());
  CHECK(processes.size() == 2);
  c["w1"].end(SIGKILL);
  CHECK(eventually(
    [&] { return std::all_of(processes.begin(), processes.end(), has_ended); },
    2s));
}

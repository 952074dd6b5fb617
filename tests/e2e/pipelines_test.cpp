// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/canary_load.hpp"
#include "tests/support/distribution.hpp"
#include "tests/support/live_cluster.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

const std::vector<std::string> workers{"w1", "w2", "w3", "w4"};

std::map<std::string, std::string> four_workers() {
  auto out = apart();
  for (auto& name : workers)
    out[name] = "    roles: [worker]\n";
  return out;
}

/// The ready replicas of all reachable workers.
std::vector<assignment> replicas_of(live_cluster& c) {
  std::vector<assignment> out;
  for (auto& name : workers)
    c.wait_status(
      name,
      [&](const node_status& x) {
        for (auto& r : x.replicas)
          if (r.state == replica_condition::ready)
            out.push_back(r.what);
        return true;
      },
      2s);
  return out;
}

/// Configures a model in n parts and waits until only these parts serve.
void serve(live_cluster& c, const std::string& model, uint64_t parts) {
  auto controller = c.connect_operator("ctl");
  set_model x;
  x.settings.model = model;
  x.settings.parts = parts;
  REQUIRE(controller.ask<ack>("./registry", x));
  REQUIRE(eventually(
    [&] {
      auto all = replicas_of(c);
      return all.size() == parts
             && std::count_if(all.begin(), all.end(), [](auto& r) {
                  return r.layers.first == 0;
                }) == 1;
    },
    30s));
}

} // namespace

TEST_CASE("e2e: FP-23, QU-03: a model in 1 and 2 and 4 parts on several nodes"
          " gives the same answers") {
  live_cluster c{four_workers(), "  - {model: residual}\n", bundles};
  auto gateway = c.start_and_meet();
  std::map<int64_t, std::vector<float>> whole;
  for (uint64_t parts : {1, 2, 4}) {
    CAPTURE(parts);
    serve(c, "residual", parts);
    std::set<std::string> nodes;
    for (auto& r : replicas_of(c))
      nodes.insert(r.node);
    CHECK(nodes.size() > parts / 2); // includes the previous cut
    for (int64_t rows : {1, 2, 7}) {
      auto y = gateway.infer_one(ask("residual", floats({rows, 4})));
      CAPTURE(y.error);
      REQUIRE(y.status == ec::ok);
      CHECK(y.outputs[0].value.extents == shape{rows, 3});
      auto values = values_of(y.outputs[0].value);
      auto& expected = whole.try_emplace(rows, values).first->second;
      for (size_t i = 0; i < values.size(); ++i)
        CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-4));
    }
  }
}

TEST_CASE("e2e: P3: every request gets exactly its own answer through kills of"
          " nodes with middle stages under load") {
  live_cluster c{four_workers(), "  - {model: relay, parts: 3, replicas: 2}\n",
                 bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  canary_load load{c.connect_client(), "relay", 32};
  load.start();
  ::usleep(500'000);
  std::vector<timestamp> killed;
  const int kills = 4 * times();
  for (int i = 0; i < kills; ++i) {
    auto all = replicas_of(c);
    auto middle = std::find_if(all.begin(), all.end(), [](auto& r) {
      return r.layers.first > 0 && r.layers.last < 6;
    });
    REQUIRE(middle != all.end());
    killed.push_back(steady_now());
    c[middle->node].end(SIGKILL);
    ::usleep(300'000);
    c.start(middle->node);
    REQUIRE(c.wait_ready());
  }
  load.stop();
  load.finish();
  report(load);
  auto waits = load.waits_from(killed);
  MESSAGE("longest wait around " << kills << " kills: " << distribution(waits));
  CHECK(load.submitted > 500);
  CHECK(load.answered == load.submitted);
  CHECK(load.surprises == 0);
  CHECK(load.foreign == 0);
  CHECK(load.statuses[ec::ok] == load.submitted);
  CHECK(most_of(waits) < 2s);
}

TEST_CASE("e2e: FP-24: every request gets exactly its own answer while parts"
          " become whole replicas under load") {
  live_cluster c{four_workers(),
                 "  - {model: relay, parts: 3, complete: true}\n", bundles};
  c.start_all();
  auto gateway = c.connect_client();
  REQUIRE(eventually(
    [&] {
      auto y = gateway.infer_one(ask("relay", floats({1, 4})));
      return y.status == ec::ok;
    },
    20s));
  canary_load load{c.connect_client(), "relay", 32};
  load.start();
  auto whole = [](auto& r) { return r.layers == layer_range{0, 6}; };
  CHECK(eventually(
    [&] {
      auto all = replicas_of(c);
      return all.size() == 3 && std::all_of(all.begin(), all.end(), whole);
    },
    20s));
  ::usleep(300'000);
  load.stop();
  load.finish();
  report(load);
  CHECK(load.submitted > 500);
  CHECK(load.answered == load.submitted);
  CHECK(load.surprises == 0);
  CHECK(load.foreign == 0);
  CHECK(load.statuses[ec::ok] == load.submitted);
}

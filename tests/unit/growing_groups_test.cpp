// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>

#include "actors/policies/parts/growing_groups.hpp"
#include "actors/policies/state/configured_groups.hpp"
#include "tests/support/one_model.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr double cold_of_layer = 2, run_of_layer = 0.0025;

/// 16 layers that take 2 s each to load and 2.5 ms to run.
profile layered() {
  profile out;
  out.model = "m";
  for (int i = 0; i < 16; ++i) {
    auto layer = static_cast<double>(i);
    out.points.push_back({"a10",
                          1,
                          {{"layer", layer}},
                          {{"execute_seconds", run_of_layer},
                           {"attach_seconds", cold_of_layer},
                           {"send_seconds", 0.05}}});
  }
  return out;
}

/// One model with `parts: auto`; `run` makes the replicas of a proposal ready.
struct growing_model : one_model {
  explicit growing_model(option_texts more = {})
    : one_model("arrival_rate", with(std::move(more))) {
    settings.scaling.parts = growth::automatic;
    settings.scaling.max = 16;
    cost_book book{1, {}, {}};
    book.profiles["m"] =
      std::make_shared<const model_profiles>(model_profiles{{layered()}});
    snapshot.costs = std::make_shared<const cost_book>(book);
    load.service = 0.04;
  }

  static option_texts with(option_texts x) {
    x.insert({{"target", "1"},
              {"quantile", "0"},
              {"window", "1s"},
              {"up_after", "0s"},
              {"cooldown", "0s"}});
    return x;
  }

  /// Asks for a proposal at a load that keeps `replicas` replicas busy.
  proposal ask_for(double replicas, uint64_t waiting = 0) {
    set_rate(replicas / 0.04);
    load.service = 0.04;
    load.waiting = waiting;
    now += 1s;
    return ask();
  }

  /// Makes the replicas of a proposal ready.
  void run(const proposal& x, bool completed = false) {
    load.groups.clear();
    for (auto& g : x.groups)
      if (g.count > 0) {
        auto is_there = g.cut == whole_key || g.extends.empty() != completed;
        load.groups.push_back({{g.id, "model/m", g.cut, g.stage, g.extends,
                                g.device, g.count, 0, 0},
                               g.layers,
                               g.version,
                               is_there ? g.count : 0,
                               0});
      }
  }
};

/// Groups as "KEY xCOUNT", without groups that extend others.
std::vector<std::string> shown(const proposal& x) {
  std::vector<std::string> out;
  for (auto& g : x.groups)
    if (g.extends.empty())
      out.push_back(g.id.substr(g.id.rfind('/') + 1) + " x"
                    + std::to_string(g.count));
  return out;
}

using list = std::vector<std::string>;

} // namespace

TEST_CASE("FP-28: a plan is sized for waiting requests and for arrivals beyond "
          "capacity during a cold start") {
  struct {
    uint64_t waiting;
    double rate, served, cold;
    uint64_t then;
  } const table[]{{40, 100, 75, 2, 90},    // 40 + 25 * 2
                  {40, 50, 75, 2, 40},     // the capacity suffices
                  {0, 50, 75, 2, 1},       // at least one request
                  {10, 100, 0, 100, 3000}, // at most 3000 requests
                  {0, 10.1, 10, 1, 1}};
  for (auto& row : table) {
    CAPTURE(row.then);
    CHECK(requests_expected(row.waiting, row.rate, row.served, row.cold, 3000)
          == row.then);
  }
}

TEST_CASE(
  "FP-26: the capacity is that of whole replicas and of groups of parts") {
  growing_model x;
  x.ask_for(1);
  x.run(x.ask_for(1));
  std::vector<double> execute(16, run_of_layer);
  CHECK(served_rate(x.load, execute) == doctest::Approx(25));
  x.run(x.ask_for(4));
  // The largest of three parts has 6 layers.
  CHECK(served_rate(x.load, execute)
        == doctest::Approx(25 + 1 / (6 * run_of_layer)));
}

TEST_CASE("FP-24, FP-31: each scale-up adds a group of parts that becomes "
          "whole replicas") {
  growing_model x;
  x.ask_for(1);
  auto first = x.ask_for(1);
  CHECK(shown(first) == list{"whole x1"});
  x.run(first);
  auto second = x.ask_for(4);
  CHECK(shown(second)
        == list{"whole x1", "b1.0-5 x1", "b1.5-11 x1", "b1.11-16 x1"});
  auto& completing = second.groups.back();
  CHECK(completing.extends == "b1.5,11");
  CHECK(completing.count == 3);
  CHECK(completing.layers == layer_range{0, 16});
  CHECK(second.reasons["m"].find("group of 3 parts (cuts 5,11): plan for")
        != std::string::npos);
  x.run(second);
  CHECK(shown(x.ask_for(4)) == shown(second)); // a plan is made once
  auto third = x.ask_for(12);
  CHECK(third.groups.size() == 1 + 4 + 9);
  CHECK(shown(third).at(1) == "b1.0-5 x1");
  CHECK(shown(third).at(4) == "b2.0-2 x1");
  x.run(third, true); // each part has become a whole replica
  CHECK(shown(x.ask_for(12)) == list{"whole x12"});
}

TEST_CASE("FP-29: a scale-down ends groups of parts first and at most as many "
          "devices as requested") {
  struct {
    uint64_t devices;
    list then;
  } const table[]{{1, {"4", "1x8", "2x3"}}, // no group is that small
                  {3, {"4", "1x8", "1x3"}}, // one group of the smaller burst
                  {5, {"2", "1x8", "1x3"}}, // one group and two whole replicas
                  {8, {"4", "2x3"}},        // the largest group
                  {14, {"4"}},              // all groups
                  {17, {"1"}}};
  for (auto& row : table) {
    CAPTURE(row.devices);
    grown x{4, {{1, {2, 4, 6, 8, 10, 12, 14}, 1}, {2, {5, 10}, 2}}};
    if (row.devices == 1)
      x.wholes = 5;
    release(x, row.devices);
    list is{std::to_string(x.wholes)};
    for (auto& b : x.bursts)
      is.push_back(std::to_string(b.groups) + "x" + std::to_string(b.parts()));
    CHECK(is == row.then);
  }
}

TEST_CASE("FP-66: a plan has no more parts than the options allow") {
  growing_model x{{{"parts_max", "2"}}};
  x.ask_for(1);
  x.run(x.ask_for(1));
  auto found = x.ask_for(9);
  CHECK(shown(found) == list{"whole x1", "b1.0-8 x4", "b1.8-16 x4"});
}

TEST_CASE(
  "FP-38: devices of hosts that have the model loaded get whole replicas") {
  growing_model x;
  x.ask_for(1);
  auto first = x.ask_for(1);
  x.run(first);
  node_state host;
  host.node.name = "host";
  for (auto* id : {"gpu0", "gpu1", "gpu2"}) {
    device_info device;
    device.id = id;
    device.kind = "a10";
    host.devices.push_back(device);
  }
  replica_status loaded;
  loaded.what.model = "m";
  loaded.what.version = 1;
  loaded.what.layers = {0, 16};
  loaded.what.device = "gpu0";
  loaded.state = replica_condition::ready;
  host.replicas.push_back(loaded);
  x.snapshot.nodes["host"] = std::make_shared<const node_state>(host);
  auto found = x.ask_for(6);
  CAPTURE(found.reasons["m"]);
  CHECK(shown(found)
        == list{"whole x3", "b1.0-6 x1", "b1.6-11 x1", "b1.11-16 x1"});
  CHECK(found.reasons["m"].find("on 5 devices, 2 primed, from hosts")
        != std::string::npos);
}

TEST_CASE("growing groups: without a profile of the layers replicas are whole "
          "and the reason names the missing profile") {
  growing_model x;
  x.snapshot.costs = nullptr;
  x.ask_for(1);
  auto found = x.ask_for(4);
  CHECK(shown(found) == list{"whole x4"});
  CHECK(found.reasons["m"].find("no profile of all layers of m is known")
        != std::string::npos);
}

TEST_CASE("growing groups: a new controller takes over the running groups") {
  growing_model x;
  x.ask_for(1);
  x.run(x.ask_for(1));
  auto before = x.ask_for(4);
  x.run(before);
  x.memory = {};
  CHECK(shown(x.ask_for(4)) == shown(before));
}

TEST_CASE(
  "growing groups: a group number is reused after its last replica ended") {
  growing_model x{{{"down_after", "0s"}}};
  x.ask_for(1);
  x.run(x.ask_for(1));
  auto second = x.ask_for(4);
  x.run(second);
  auto third = x.ask_for(1); // the group ends
  CHECK(shown(third) == list{"whole x1"});
  // Its replicas still run.
  CHECK(shown(x.ask_for(4)).at(1).starts_with("b2.0-"));
  x.run(x.ask_for(1));
  CHECK(shown(x.ask_for(4)).at(1).starts_with("b1.0-"));
}

TEST_CASE("growing groups: settings that contradict parts auto are refused") {
  struct {
    const char* key;
    void (*change)(model_settings&);
  } const table[]{
    {"models[0].parts", [](model_settings& x) { x.parts = 2; }},
    {"models[0].cuts", [](model_settings& x) { x.cuts = {3}; }},
    {"models[0].complete", [](model_settings& x) { x.complete = true; }},
    {"models[0].scaling.parts",
     [](model_settings& x) { x.scaling.policy = "fixed"; }}};
  for (auto& row : table) {
    model_settings x;
    x.model = "m";
    x.scaling.policy = "arrival_rate";
    x.scaling.parts = growth::automatic;
    CHECK(check_scaling({x}, {}).empty());
    row.change(x);
    auto found = check_scaling({x}, {});
    REQUIRE(!found.empty());
    CHECK(found.front().key == row.key);
  }
}

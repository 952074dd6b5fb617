// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>

#include "actors/policies/registry.hpp"
#include "actors/policies/state/deltas.hpp"
#include "runtime/text.hpp"
#include "simulator/log_line.hpp"
#include "simulator/recorder.hpp"
#include "simulator/simulation.hpp"

using namespace millrace;
using namespace millrace::simulator;

namespace {

/// Runs config/scenarios/burst.yaml with replaced options.
record run_burst(std::vector<std::string> changes = {}, uint64_t seed = 1) {
  auto what =
    load_scenario(MILLRACE_SOURCE "/config/scenarios/burst.yaml", changes);
  REQUIRE_MESSAGE(what, what.failure().text);
  simulation::options how;
  how.seed = seed;
  auto run = simulation::prepare(*what, how);
  REQUIRE(run);
  recorder notes{(*run)->begin(), what->spec.length};
  (*run)->add(notes);
  (*run)->run();
  (*run)->finish();
  return notes.take();
}

struct change {
  double at;
  uint64_t from, to;
};

std::vector<change> changes_in(const record& x) {
  std::vector<change> out;
  for (auto& e : x.events)
    if (e.what.starts_with("autoscaler.scaled "))
      out.push_back({to_seconds(e.at),
                     *number_in<uint64_t>(field_of(e.what, "from")),
                     *number_in<uint64_t>(field_of(e.what, "to"))});
  return out;
}

void check_all_ok(const record& x) {
  for (auto& r : x.requests)
    if (r.sent >= 0us && r.replica != 0)
      CHECK(r.status == ec::ok);
}

const std::vector<std::string> at_random{"workload[0].arrivals=poisson",
                                         "workload[1].arrivals=poisson",
                                         "workload[2].arrivals=poisson"};

} // namespace

TEST_CASE("scaling: replicas follow a burst from 1 to 4 and back to 1 and every"
          " request is answered") {
  auto found = run_burst();
  auto xs = changes_in(found);
  REQUIRE(xs.size() == 3);
  CHECK(xs[0].to == 1);
  CHECK(xs[1].to == 4);
  CHECK(xs[1].at > 60);
  CHECK(xs[1].at < 63);
  CHECK(xs[2].to == 1);
  CHECK(xs[2].at > 120);
  CHECK(xs[2].at < 132);
  check_all_ok(found);
  auto deploys =
    std::count_if(found.events.begin(), found.events.end(), [](auto& e) {
      return e.what.starts_with("placement.deploy ");
    });
  CHECK(deploys == 4);
}

TEST_CASE("FP-25: policies invocations and utilisation start replicas for a"
          " burst and end them afterwards") {
  struct {
    std::string scaling;
    uint64_t most;
  } const table[]{
    {"{policy: invocations, options: {target: 60}, min: 1, max: 6}", 4},
    // 3.6 busy of 15 ms x 240; 3.6 / 0.6 = 6
    {"{policy: utilisation, options: {target: 0.6}, min: 1, max: 6}", 6}};
  for (auto& row : table) {
    CAPTURE(row.scaling);
    auto found = run_burst({"models[0].scaling=" + row.scaling});
    check_all_ok(found);
    auto xs = changes_in(found);
    REQUIRE(xs.size() >= 3);
    uint64_t most = 0;
    for (auto& x : xs)
      most = std::max(most, x.to);
    CHECK(most == row.most);
    CHECK(xs.back().to == 1);
    CHECK(xs.back().at > 120);
  }
}

namespace {

/// The devices of the replicas, in the order of their decisions.
std::vector<std::string> devices_in(const record& x) {
  std::vector<std::string> out;
  for (auto& e : x.events)
    if (e.what.starts_with("placement.deploy "))
      out.push_back(std::string{field_of(e.what, "node")} + "/"
                    + std::string{field_of(e.what, "device")});
  return out;
}

} // namespace

TEST_CASE("FP-32, FP-33: policy two_stage places a burst on the host with the"
          " model and then on one device per other host") {
  using names = std::vector<std::string>;
  auto found = run_burst({"placement={policy: two_stage}"});
  check_all_ok(found);
  CHECK(devices_in(found)
        == names{"worker-1/small.0", "worker-1/small.1", "worker-2/small.0",
                 "worker-3/small.0"});
  CHECK(devices_in(run_burst())
        == names{"worker-1/small.0", "worker-1/small.1", "worker-2/small.0",
                 "worker-2/small.1"});
}

TEST_CASE("placement: policy pack lets replicas share devices up to their units"
          " without moving them") {
  using names = std::vector<std::string>;
  auto found =
    run_burst({"placement={policy: pack}", "hosts[1].devices[0].units=100",
               "models[0].units=40", "workload[1].rate=60",
               "models[0].scaling.options={target: 0.3}"});
  check_all_ok(found);
  CHECK(devices_in(found)
        == names{"worker-1/small.0", "worker-1/small.0", "worker-1/small.1"});
}

TEST_CASE("scaling: a random burst gets 4 or 5 replicas with at most one change"
          " of direction per cooldown") {
  for (uint64_t seed : {1, 2, 3, 4}) {
    CAPTURE(seed);
    auto found = run_burst(at_random, seed);
    check_all_ok(found);
    uint64_t most = 0;
    double turned = -1000;
    auto xs = changes_in(found);
    for (size_t i = 1; i < xs.size(); ++i) {
      most = std::max(most, xs[i].to);
      auto turns = (xs[i].to > xs[i].from) != (xs[i - 1].to > xs[i - 1].from);
      if (!turns)
        continue;
      CHECK(xs[i].at - turned >= 5);
      turned = xs[i].at;
    }
    CHECK(most >= 4);
    CHECK(most <= 5);
    CHECK(xs.back().to == 1);
  }
}

TEST_CASE("decide: a replay gives the recorded decisions and other options give"
          " other decisions") {
  auto what = load_scenario(MILLRACE_SOURCE "/config/scenarios/burst.yaml");
  REQUIRE(what);
  auto run = simulation::prepare(*what, {});
  REQUIRE(run);
  (*run)->run();
  auto found = (*run)->ask<decision_records>("front", "autoscaler",
                                             get_decision_records{});
  (*run)->finish();
  REQUIRE(found);
  REQUIRE(found->records.size() == 3);
  cluster_snapshot snapshot;
  for (auto& x : found->records) {
    auto next = apply(&snapshot, x.snapshot);
    REQUIRE(next);
    snapshot = *next;
    auto settings = snapshot.scopes.at(x.what.scope)->settings;
    auto again = [&] {
      auto memory = x.memory;
      random_stream random{x.seed};
      return (*make_scaling_policy(x.what.scope, settings))
        ->propose(snapshot, memory, random, timestamp{nanoseconds{x.now}})
        .groups;
    };
    CHECK(again() == x.proposed.groups);
    settings.options["target"] = "0.5";
    if (x.what.to == 4)
      CHECK(again().at(0).count == 6); // the maximum
  }
}

TEST_CASE("scaling: a simulated decision takes effect after the time in its"
          " table") {
  auto first_after = [](const record& x, const char* event) {
    for (auto& e : x.events)
      if (e.at > 60s && e.what.starts_with(event))
        return to_seconds(e.at);
    return 0.0;
  };
  auto found = run_burst({"decisions.scaling={1: 2s}"});
  auto decided = first_after(found, "autoscaler.scaled ");
  auto deployed = first_after(found, "placement.deploy ");
  CHECK(deployed >= decided + 2);
  CHECK(deployed < decided + 2.2);
}

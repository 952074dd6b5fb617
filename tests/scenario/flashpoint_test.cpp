// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "models/partition/deployment.hpp"
#include "models/profile_book.hpp"
#include "tests/support/runs.hpp"

using namespace millrace;
using namespace millrace::simulator;
using namespace millrace::test;

namespace {

constexpr microseconds first_burst = 10s, second_burst = 30s;

/// The replicas that placement decided in the first 5 s of a burst.
std::vector<replica_row> started_after(const record& x, microseconds burst) {
  std::vector<replica_row> out;
  for (auto& r : x.replicas)
    if (r.decided && *r.decided > burst && *r.decided < burst + 5s)
      out.push_back(r);
  return out;
}

/// The layer ranges of the stages that ran a batch between two times.
std::set<std::pair<size_t, size_t>>
stages_run(const record& x, microseconds from, microseconds to) {
  std::set<std::pair<size_t, size_t>> out;
  for (auto& b : x.batches)
    if (b.started >= from && b.ended <= to)
      out.insert({b.first_layer, b.last_layer});
  return out;
}

bool all_ok(const record& x) {
  return std::all_of(x.requests.begin(), x.requests.end(),
                     [](auto& r) { return r.status == ec::ok; });
}

std::vector<std::string> scalings(const record& x) {
  std::vector<std::string> out;
  for (auto& e : x.events)
    if (e.what.starts_with("autoscaler.scaled "))
      out.push_back(e.what);
  return out;
}

} // namespace

TEST_CASE("FP-24, FP-31: two bursts start groups of 3 and 8 parts that serve"
          " side by side and become whole replicas") {
  auto x = run_example("flashpoint-bursts.yaml");
  CHECK(all_ok(x));
  CHECK(started_after(x, first_burst).size() == 3);
  CHECK(started_after(x, second_burst).size() == 8);
  auto both = stages_run(x, second_burst + 10s, second_burst + 13s);
  for (auto& stage : std::vector<std::pair<size_t, size_t>>{
         {0, 5}, {5, 11}, {11, 16}, {0, 2}, {14, 16}})
    CHECK(both.contains(stage));
  auto last = stages_run(x, x.length - 10s, x.length);
  CHECK(last == std::set<std::pair<size_t, size_t>>{{0, 16}});
  CHECK(std::count_if(x.replicas.begin(), x.replicas.end(),
                      [](auto& r) { return r.ready && !r.ended; })
        == 12);
}

TEST_CASE("FP-20: no replica of the first burst starts again when the second"
          " burst comes") {
  auto x = run_example("flashpoint-bursts.yaml");
  std::map<uint32_t, size_t> starts; // by device: a part and a whole replica
  for (auto& r : x.replicas)
    ++starts[r.device];
  for (auto& r : started_after(x, first_burst)) {
    CHECK(starts.at(r.device) == 2);
    REQUIRE(r.ended);
    CHECK(*r.ended > second_burst + 10s);
  }
}

TEST_CASE("FP-28: the plan in the reason equals the plan of the exact planner"
          " for the same input") {
  auto x = run_example("flashpoint-bursts.yaml");
  auto found = scalings(x);
  auto profile = read_profile(MILLRACE_SOURCE "/models/profiles/layered.yaml",
                              "layered", "");
  REQUIRE(profile);
  auto costs = layer_costs_of(*profile, "a10", 1, {{1e9}, 100us});
  REQUIRE(costs);
  partition_planner plans{*costs};
  struct {
    size_t change;
    uint64_t requests, devices;
    const char* text;
  } const table[]{{1, 1971, 3, "1 group of 3 parts (cuts 5,11)"},
                  {2, 3000, 8, "1 group of 8 parts (cuts 2,4,6,8,10,12,14)"}};
  for (auto& row : table) {
    auto& text = found.at(row.change);
    CAPTURE(text);
    CHECK(text.find(std::string{row.text} + ": plan for "
                    + std::to_string(row.requests) + " requests on "
                    + std::to_string(row.devices)
                    + " devices, 0 primed, from hosts at 8 Gbit/s")
          != std::string::npos);
    auto best = best_deployment(
      plans, {.requests = row.requests, .devices = row.devices});
    CHECK(best.groups == 1);
    CHECK(best.full == 0);
    CHECK(best.plan->parts() == row.devices);
  }
}

TEST_CASE("FP-19: a host killed while the second group starts does not change"
          " the first and the second starts elsewhere") {
  auto before = run_example("flashpoint-bursts.yaml");
  auto device = before.names[started_after(before, second_burst)[0].device];
  auto host = device.substr(0, device.find('/'));
  auto x =
    run_example("flashpoint-bursts.yaml",
                {"faults=[{kind: kill, nodes: [" + host + "], at: 34s}]"});
  CHECK(all_ok(x));
  auto first = started_after(x, first_burst);
  REQUIRE(first.size() == 3);
  for (auto& r : first) {
    REQUIRE(r.ready);
    REQUIRE(r.ended);
    CHECK(*r.ended > second_burst + 10s); // when whole replicas take over
  }
  auto last = stages_run(x, x.length - 10s, x.length);
  CHECK(last == std::set<std::pair<size_t, size_t>>{{0, 16}});
}

TEST_CASE("FP-56: without cuts the bursts wait for whole starts") {
  auto cut = run_example("flashpoint-bursts.yaml");
  auto whole = run_example("flashpoint-bursts.yaml",
                           {"models[0].scaling.parts=configured"});
  CHECK(all_ok(whole));
  CHECK(mean_latency(whole) > 3 * mean_latency(cut));
}

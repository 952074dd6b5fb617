// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/support/runs.hpp"

using namespace millrace;
using namespace millrace::simulator;
using namespace millrace::test;

namespace {

/// config/scenarios/infaas-fluctuating.yaml with options replaced.
record run_fluctuating(const std::vector<std::string>& changes = {},
                       uint64_t seed = 1) {
  simulation::options how;
  how.seed = seed;
  return run_of(example("infaas-fluctuating.yaml", changes), how);
}

/// The variants that have a ready replica at a moment.
std::set<std::string> ready_at(const record& x, microseconds at) {
  std::set<std::string> out;
  for (auto& r : x.replicas)
    if (r.ready && *r.ready <= at && (!r.ended || *r.ended > at))
      out.insert(x.names[r.model]);
  return out;
}

size_t not_ok(const record& x) {
  return static_cast<size_t>(
    std::count_if(x.requests.begin(), x.requests.end(),
                  [](auto& r) { return r.status != ec::ok; }));
}

const std::set<std::string> on_cpu{"resnet50-cpu"};

} // namespace

TEST_CASE("IN-43, IN-45: the form on CPUs serves alone except during a spike"
          " when a faster form serves and no request is lost") {
  auto x = run_fluctuating();
  CHECK(not_ok(x) == 0);
  REQUIRE(x.requests.size() > 4000);
  for (auto spike : {60s, 150s}) {
    CAPTURE(spike.count());
    CHECK(ready_at(x, spike - 1s) == on_cpu);
    CHECK(ready_at(x, spike + 20s).contains("resnet50-inferentia"));
    CHECK(ready_at(x, spike + 45s) == on_cpu); // 15 s after the spike
    CHECK(std::any_of(x.replicas.begin(), x.replicas.end(), [&](auto& r) {
      return x.names[r.model] == "resnet50-inferentia" && r.begun >= spike
             && r.begun < spike + 5s;
    }));
  }
}

TEST_CASE("IN-65: replicas of the form on CPUs alone do not serve the spikes") {
  auto x =
    run_fluctuating({"scopes.application/resnet50.options.switches=false"});
  CHECK(not_ok(x) > 1000);
  for (auto& r : x.replicas)
    CHECK(x.names[r.model] == "resnet50-cpu");
}

TEST_CASE("gateway: requests of an application that wait for a slow variant go"
          " to another variant once it is ready") {
  auto x = run_of(scenario_of(R"(
length: 30s
warm_up: 1500ms
hosts:
  - {name: front, roles: [gateway, controller]}
  - {name: worker, roles: [worker], devices: [{kind: cpu}, {kind: gpu}]}
bundles:
  slow: {application: x, execute: {cpu: {1: 200ms}}, load: {cpu: 1s}}
  fast: {application: x, execute: {gpu: {1: 10ms}}, load: {gpu: 8s}}
models:
  - {model: slow, device: cpu, policy: {batch: 1, overlap: 0}}
  - {model: fast, device: gpu, policy: {batch: 1, overlap: 0}}
workload:
  - {application: x, rate: 60}
)"));
  CHECK(not_ok(x) == 0); // 390 requests wait; 78 s without a move
  microseconds longest{0};
  for (auto& r : x.requests)
    longest = std::max(longest, r.ended - r.sent);
  CHECK(longest < 15s);
}

namespace {

/// Two variants that always run: a slow one at a price of 1 per hour, and a
/// fast one at 10.
record run_two_variants(const std::string& selection, double rate) {
  return run_of(scenario_of(R"(
length: 60s
warm_up: 5s
known_profiles: true
selection: {policy: )" + selection
                            + R"(}
hosts:
  - {name: front, roles: [gateway, controller]}
  - {name: worker, roles: [worker], devices: [{kind: cpu}, {kind: gpu}]}
bundles:
  slow: {application: x, accuracy: 0.7, execute: {cpu: {1: 50ms}}}
  fast: {application: x, accuracy: 0.8, execute: {gpu: {1: 5ms}}}
scopes:
  application/x: {policy: infaas, options: {prices: cpu 1; gpu 10}}
models:
  - {model: slow, device: cpu, policy: {batch: 1, overlap: 0},
     scaling: {scope: application/x, min: 1, max: 1}}
  - {model: fast, device: gpu, policy: {batch: 1, overlap: 0},
     scaling: {scope: application/x, min: 1, max: 1}}
workload:
  - {application: x, arrivals: constant, rate: )"
                            + std::to_string(rate) + R"(}
  - {application: x, arrivals: constant, rate: 1, goal: {accuracy: 0.75}}
)"));
}

/// Share of the requests of the first workload that the slow variant answered.
double part_of_slow(const record& x) {
  double slow = 0, all = 0;
  for (auto& r : x.requests)
    if (r.part == 0) {
      ++all;
      slow += r.status == ec::ok && x.names[r.model] == "slow" ? 1 : 0;
    }
  return slow / all;
}

} // namespace

TEST_CASE(
  "IN-24, IN-29: a request of an application is answered by the cheapest"
  " active variant that meets its demands") {
  for (auto* selection : {"infaas", "brute"}) {
    CAPTURE(selection);
    auto x = run_two_variants(selection, 5);
    CHECK(part_of_slow(x) == 1);
    for (auto& r : x.requests)
      if (r.part == 1) // accuracy 0.75
        CHECK(x.names[r.model] == "fast");
  }
  CHECK(part_of_slow(run_two_variants("quickest", 5)) < 0.1);
}

TEST_CASE("IN-28: requests go to another active variant while the cheap variant"
          " is overloaded") {
  auto x = run_two_variants("infaas", 60); // the slow one serves 20/s
  CHECK(not_ok(x) == 0);
  CHECK(part_of_slow(x) < 0.7);
  CHECK(part_of_slow(x) > 0.05);
}

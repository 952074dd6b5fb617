// SPDX-License-Identifier: Apache-2.0
#include "tests/support/runs.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Two workers, one replica of the model, and 20 requests per second.
std::string one_replica(const std::string& faults) {
  return "length: 60s\n"
         "hosts:\n"
         "  - {name: front, roles: [gateway, controller]}\n"
         "  - {name: w, count: 2, roles: [worker], devices: [{kind: d}]}\n"
         "bundles:\n"
         "  m: {execute: {d: {1: 4ms}}, load: {d: 100ms}}\n"
         "  unused: {like: m}\n"
         "models: [{model: m}]\n"
         "workload: [{model: m, rate: 20, deadline: 500ms}]\n"
         "faults: ["
         + faults + "]\n";
}

/// Time in seconds and node of each fault of a kind.
std::vector<std::pair<double, std::string>>
faults_in(const simulator::record& run, const std::string& kind) {
  std::vector<std::pair<double, std::string>> out;
  auto begin = "fault." + kind + " node=";
  for (auto& x : run.events)
    if (x.what.starts_with(begin)) {
      auto rest = x.what.substr(begin.size());
      out.emplace_back(to_seconds(x.at), rest.substr(0, rest.find(' ')));
    }
  return out;
}

} // namespace

TEST_CASE("fault: a periodic fault first occurs after one period") {
  auto run = run_of(
    scenario_of(one_replica("{kind: slow, each: 13s, lasts: 1s, factor: 2}")));
  auto struck = faults_in(run, "slow");
  REQUIRE(struck.size() == 4);
  for (size_t i = 0; i < struck.size(); ++i)
    CHECK(struck[i].first == doctest::Approx(13. * static_cast<double>(i + 1)));
}

TEST_CASE("fault: in-use affects the node that currently has the ready replica"
          " of the model") {
  auto run = run_of(scenario_of(
    one_replica("{kind: kill, nodes: ['in-use:m'], each: 10s, lasts: 8s}")));
  auto struck = faults_in(run, "kill");
  REQUIRE(struck.size() == 5);
  // A node stays down until the replica has moved, so the next fault affects
  // the other node.
  for (size_t i = 1; i < struck.size(); ++i)
    CHECK(struck[i].second != struck[i - 1].second);
}

TEST_CASE("fault: in-use of a model without a ready replica affects no node") {
  auto run = run_of(scenario_of(
    one_replica("{kind: kill, nodes: ['in-use:unused'], at: 10s, lasts: 8s}")));
  CHECK(faults_in(run, "kill").empty());
  size_t reported = 0;
  for (auto& x : run.events)
    reported += x.what.starts_with("fault.no_place kind=kill");
  CHECK(reported == 1);
}

// SPDX-License-Identifier: Apache-2.0
#include "tests/support/runs.hpp"

using namespace millrace;
using namespace millrace::simulator;
using namespace millrace::test;

namespace {

/// Two workers behind a store of 1 Gbit/s with a model of 125 MB.
std::string far_model(const std::string& more = "") {
  return "length: 20s\n"
         "warm_up: 0s\n"
         "hosts:\n"
         "  - {name: front, roles: [gateway, controller]}\n"
         "  - {name: w, count: 2, roles: [worker], devices: [{kind: d}]}\n"
         "network: {host: {speed: 10Gbit/s}, store: {speed: 1Gbit/s}}\n"
         "bundles: {m: {at: store, bytes: 125MB, execute: {d: {1: 10ms}}}}\n"
         "models: [{model: m, replicas: 2}]\n"
         "workload: [{model: m, rate: 20}]\n"
         + more;
}

/// Violations of a run in which a replica of 125 MB on w-1 was ready `after`
/// the decision, with bytes from `source`.
std::vector<violation> audited(const std::string& source, microseconds after) {
  auto what = scenario_of(far_model());
  auto audit = make_conservation(what);
  timestamp begin{1h};
  audit->on_log(log_level::info,
                "placement.deploy replica=m.1.7 node=w-1 device=d.0", begin);
  audit->on_log(log_level::info,
                "replica.ready replica=m.1.7 from=" + source
                  + " bytes=125000000",
                begin + after);
  return audit->found();
}

} // namespace

TEST_CASE("conservation: the link of the store carries the model once per chain"
          " at full rate") {
  auto what = scenario_of(far_model());
  auto run = run_of(what);
  auto links = summarise(what, 1, run).links;
  auto store = std::find_if(links.begin(), links.end(),
                            [](auto& x) { return x.link == "store up"; });
  REQUIRE(store != links.end());
  CHECK(store->bytes == doctest::Approx(125e6).epsilon(1e-3));
  CHECK(store->utilisation == doctest::Approx(1.0 / 20).epsilon(1e-3));
}

TEST_CASE("conservation: the capacity of a host that is slowed down decreases"
          " for that time") {
  // 20 % of 10 Gbit/s for half of the run.
  auto what = scenario_of(
    far_model("faults: [{kind: slow, nodes: [w-1], at: 5s, lasts: 10s,"
              " factor: 5}]\n"));
  auto run = run_of(what);
  for (auto& x : run.links) {
    CAPTURE(x.name);
    if (x.name == "w-1 down")
      CHECK(x.room == doctest::Approx(1.25e9 * (10 + 2)));
    if (x.name == "w-2 down")
      CHECK(x.room == doctest::Approx(1.25e9 * 20));
  }
}

TEST_CASE("conservation: a start that ends before its bytes can arrive is a"
          " violation") {
  CHECK(audited("store:store", 1s).empty());
  auto found = audited("store:store", 900ms);
  REQUIRE(found.size() == 1);
  CHECK(found[0].invariant == "I33");
  CHECK(found[0].what
        == "w-1 has m.1.7 900 ms after the decision; its bytes alone take 1 s");
  CHECK(audited("w-2", 100ms).empty());
  CHECK(audited("w-2", 99ms).size() == 1);
  CHECK(audited("disk", 1us).empty());
}

TEST_CASE("measures: the deadline of a model may be several hours") {
  auto text = std::string{
    "length: 20s\n"
    "hosts:\n"
    "  - {name: front, roles: [gateway, controller]}\n"
    "  - {name: w, roles: [worker], devices: [{kind: d}]}\n"
    "bundles: {m: {execute: {d: {1: 20min}}}}\n"
    "models: [{model: m, slo: 50min, policy: {batch: 1, deadline: 2h}}]\n"
    "workload: [{model: m, arrivals: constant, requests: 3}]\n"};
  auto found = summary_of(text);
  CHECK(found.all_ok);
  CHECK(found.all.latency.max_ms > 59 * 60e3);
}

TEST_CASE("workload: requests for an application carry their goal") {
  auto text = [](const std::string& goal) {
    return "length: 20s\n"
           "hosts:\n"
           "  - {name: front, roles: [gateway, controller]}\n"
           "  - {name: w, roles: [worker], devices: [{kind: d, count: 2}]}\n"
           "bundles:\n"
           "  quick: {application: a, accuracy: 0.7, execute: {d: {1: 5ms}}}\n"
           "  right: {application: a, accuracy: 0.9, execute: {d: {1: 9ms}}}\n"
           "models: [{model: quick}, {model: right}]\n"
           "workload: [{application: a, rate: 20, goal: {"
           + goal + "}}]\n";
  };
  auto found = summary_of(text("accuracy: 0.8"));
  CHECK(found.all_ok);
  REQUIRE(found.models.size() == 1);
  CHECK(found.models[0].model == "right");
  CHECK_FALSE(summary_of(text("accuracy: 0.95")).all_ok);
}

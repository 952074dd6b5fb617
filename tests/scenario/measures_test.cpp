// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "simulator/tables.hpp"
#include "tests/support/runs.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// One device and one model with the options `bundle`.
std::string one_device(const std::string& bundle, const std::string& workload) {
  return "length: 20s\n"
         "hosts:\n"
         "  - {name: front, roles: [gateway, controller]}\n"
         "  - {name: w, roles: [worker], devices: [{kind: d}]}\n"
         "bundles: {m: {"
         + bundle
         + "}}\n"
           "models: [{model: m, policy: {batch: 1}}]\n"
           "workload: [{model: m, "
         + workload + "}]\n";
}

} // namespace

TEST_CASE(
  "measures: a request with a deadline of 24 h is answered after hours") {
  auto found = summary_of(
    one_device("execute: {d: {1: 50min}}",
               "arrivals: constant, requests: 3, deadline: 24h, slo: 2h"));
  CHECK(found.all_ok);
  CHECK(found.all.requests == 3);
  CHECK(found.all.latency.max_ms > 2.4 * 3600e3);
  CHECK(found.end_seconds > 9000);
  CHECK(found.all.goodput_at_slo_times.at("1") == doctest::Approx(2.0 / 20));
  CHECK(found.all.goodput_at_slo_times.at("1.5") == doctest::Approx(3.0 / 20));
}

TEST_CASE("measures: a start from the store is timed from the decision of"
          " placement and split at the begin of the load") {
  auto text =
    one_device(
      "at: store, bytes: 125MB, execute: {d: {1: 10ms}}, load: {d: 2s}",
      "rate: 1")
    + "network: {host: {speed: 100Gbit/s}, store: {speed: 1Gbit/s}}\n";
  auto found = summary_of(text);
  REQUIRE(found.starts.size() == 1);
  auto& start = found.starts[0];
  CHECK(start.source == "store");
  CHECK(start.count == 1);
  CHECK(start.until_load_mean == doctest::Approx(1).epsilon(0.1));
  CHECK(start.load_mean == doctest::Approx(2).epsilon(0.02));
  CHECK(start.mean == doctest::Approx(start.until_load_mean + start.load_mean));
}

TEST_CASE("measures: a replica that a restarted node loads again is timed from"
          " its own decision") {
  auto text = one_device("execute: {d: {1: 10ms}}, load: {d: 500ms}", "rate: 1")
              + "faults: [{kind: kill, nodes: [w], at: 5s, lasts: 1s}]\n";
  auto run = run_of(scenario_of(text));
  REQUIRE(run.replicas.size() == 2);
  for (auto& x : run.replicas) {
    REQUIRE(x.decided);
    REQUIRE(x.ready);
    CHECK(*x.decided <= x.begun);
    CHECK(*x.ready - *x.decided < 1s);
  }
}

TEST_CASE("measures: a gamma workload sends its exact number of requests with"
          " gaps inside the run") {
  auto run = run_of(scenario_of(
    one_device("execute: {d: {1: 1ms}}",
               "arrivals: gamma, cv: 4, requests: 777, granularity: 200ms")));
  CHECK(run.requests.size() == 777);
  for (auto& x : run.requests)
    CHECK(x.sent % 200ms == 0us);
}

TEST_CASE("measures: a run shorter than the period of its series is plotted") {
  auto what =
    scenario_of("length: 200ms\n"
                + one_device("execute: {d: {1: 1ms}}", "rate: 100").substr(12));
  temporary_directory directory;
  auto drawn = simulator::draw_plots(what, run_of(what), directory.path());
  REQUIRE(drawn);
  CHECK(std::filesystem::exists(directory.path() + "/requests.svg"));
}

TEST_CASE("measures: a replica still loading at the end of a run counts as"
          " reserved and not as a failed start") {
  auto found = summary_of(
    one_device("execute: {d: {1: 1ms}}, load: {d: 100s}", "rate: 1"));
  CHECK(found.reserved_replica_seconds == doctest::Approx(20));
  CHECK(found.devices.at(0).reserved_seconds == doctest::Approx(20));
  CHECK(found.replica_seconds == 0);
  CHECK(found.failed_starts == 0);
  CHECK(found.never_ready.size() == 1);
}

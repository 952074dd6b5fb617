// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "simulator/summary.hpp"

using namespace millrace;
using namespace millrace::simulator;

namespace {

loaded_scenario one_model() {
  auto out = parse_scenario("length: 100s\n"
                            "hosts:\n"
                            "  - {name: front, roles: [gateway, controller]}\n"
                            "  - name: w\n"
                            "    roles: [worker]\n"
                            "    devices: [{kind: v100, count: 2}]\n"
                            "bundles: {a: {execute: {v100: {1: 10ms}}}}\n"
                            "models: [{model: a}]\n"
                            "workload: [{model: a, slo: 100ms}]\n",
                            "s.yaml");
  REQUIRE(out);
  return std::move(*out);
}

class run_maker {
public:
  run_maker() {
    run_.length = 100s;
    model_ = run_.names.number_of("a");
    run_.reserved["w"] = 100s;
  }

  /// Adds a request that took `latency`, or one without an answer if it has no
  /// status.
  void request(microseconds sent, microseconds latency,
               std::optional<ec> status = ec::ok) {
    request_row x;
    x.model = model_;
    x.sent = sent;
    x.status = status;
    if (status)
      x.ended = sent + latency;
    run_.requests.push_back(x);
  }

  size_t replica(const std::string& device, std::optional<microseconds> decided,
                 microseconds begun, microseconds ready, const char* source) {
    replica_row x;
    x.device = run_.names.number_of(device);
    x.model = model_;
    x.source = source;
    x.decided = decided;
    x.begun = begun;
    x.ready = ready;
    run_.replicas.push_back(x);
    return run_.replicas.size();
  }

  void batch(size_t replica, microseconds started, microseconds ended) {
    batch_row x;
    x.replica = replica;
    x.device = run_.replicas[replica - 1].device;
    x.model = model_;
    x.started = started;
    x.ended = ended;
    run_.batches.push_back(x);
  }

  run_summary summary() const { return summarise(one_model(), 1, run_); }

private:
  record run_;
  uint32_t model_ = 0;
};

} // namespace

TEST_CASE("summary: quantiles and the mean are over all requests including the "
          "slowest") {
  run_maker run;
  for (int i = 1; i <= 1001; ++i)
    run.request(1s, milliseconds{i});
  auto x = run.summary().all.latency;
  CHECK(x.requests == 1001);
  CHECK(x.mean_ms == doctest::Approx(501));
  CHECK(x.p50_ms == doctest::Approx(501));
  CHECK(x.p75_ms == doctest::Approx(751));
  CHECK(x.p90_ms == doctest::Approx(901));
  CHECK(x.p95_ms == doctest::Approx(951));
  CHECK(x.p99_ms == doctest::Approx(991));
  CHECK(x.p999_ms == doctest::Approx(1000));
  CHECK(x.max_ms == doctest::Approx(1001));
}

TEST_CASE(
  "summary: a request without an answer counts until the end of the run") {
  run_maker run;
  run.request(1s, 50ms);
  run.request(1s, 10s, ec::deadline_exceeded);
  run.request(40s, 0us, std::nullopt);
  auto x = run.summary();
  CHECK_FALSE(x.all_ok);
  CHECK(x.end_seconds == 100);
  CHECK(x.all.latency.requests == 3);
  CHECK(x.all.latency.p50_ms == 10'000);
  CHECK(x.all.latency.max_ms == 60'000);
  CHECK(x.all.latency.mean_ms == doctest::Approx((50 + 10'000 + 60'000) / 3.0));
  CHECK(x.all.latency_ok.requests == 1);
  CHECK(x.all.latency_ok.max_ms == 50);
}

TEST_CASE("summary: an answer after the workload moves the end of the run") {
  run_maker run;
  run.request(90s, 30s);
  run.request(40s, 0us, std::nullopt);
  auto x = run.summary();
  CHECK(x.end_seconds == 120);
  CHECK(x.all.latency.max_ms == 80'000);
}

TEST_CASE("summary: a run is all ok if each request was answered ok") {
  run_maker run;
  run.request(1s, 50ms);
  run.request(2s, 40s);
  CHECK(run.summary().all_ok);
  run.request(3s, 1ms, ec::overloaded);
  CHECK_FALSE(run.summary().all_ok);
}

TEST_CASE("summary: goodput at k times the SLO counts ok answers within it") {
  run_maker run;
  for (auto latency : {100ms, 101ms, 150ms, 151ms, 200ms, 300ms, 301ms})
    run.request(1s, latency);
  run.request(1s, 1ms, ec::overloaded);
  auto x = run.summary().all;
  CHECK(x.goodput == doctest::Approx(0.01));
  CHECK(x.goodput_at_slo_times.at("1") == doctest::Approx(0.01));
  CHECK(x.goodput_at_slo_times.at("1.5") == doctest::Approx(0.03));
  CHECK(x.goodput_at_slo_times.at("2") == doctest::Approx(0.05));
  CHECK(x.goodput_at_slo_times.at("3") == doctest::Approx(0.06));
  CHECK(x.slo_violations == doctest::Approx(7.0 / 8));
}

TEST_CASE("summary: starts are timed from the decision and grouped by source") {
  run_maker run;
  run.replica("w/v100.0", -10s, 20s, 25s, "store");
  run.replica("w/v100.1", 0s, 30s, 45s, "store");
  run.replica("w/v100.1", 50s, 51s, 52s, "host");
  run.replica("w/v100.1", std::nullopt, 60s, 61s, "host"); // after a restart
  auto x = run.summary();
  CHECK(x.cold_starts
        == std::map<std::string, uint64_t>{{"host", 2}, {"store", 2}});
  REQUIRE(x.starts.size() == 2);
  CHECK(x.starts[0] == start_summary{"host", 1, 0, 1, 1, 2, 2, 2, 2});
  CHECK(x.starts[1] == start_summary{"store", 2, 0, 30, 10, 40, 45, 45, 45});
}

TEST_CASE("summary: replicas are reserved from the decision and ready from the "
          "load and busy while a batch runs") {
  run_maker run;
  auto one = run.replica("w/v100.0", 10s, 20s, 30s, "host");
  auto two = run.replica("w/v100.0", -10s, -5s, -1s, "host");
  run.batch(one, 40s, 50s);
  run.batch(one, 45s, 60s); // overlaps the first
  run.batch(two, 55s, 65s);
  run.batch(two, 95s, 105s); // half after the workload
  auto x = run.summary();
  CHECK(x.reserved_replica_seconds == 90 + 100);
  CHECK(x.replica_seconds == 70 + 100);
  CHECK(x.busy_replica_seconds == 20 + 15);
  REQUIRE(x.devices.size() == 1);
  CHECK(x.devices[0].kind == "v100");
  CHECK(x.devices[0].devices == 2);
  CHECK(x.devices[0].available_seconds == 200);
  CHECK(x.devices[0].reserved_seconds == 100);
  CHECK(x.devices[0].busy_seconds == 25 + 5);
  CHECK(x.devices[0].utilisation == doctest::Approx(0.15));
}

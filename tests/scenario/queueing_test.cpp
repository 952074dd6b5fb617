// SPDX-License-Identifier: Apache-2.0
#include "tests/support/runs.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// One device. Each lane serves 100 requests per second, one at a time. The
/// network has no delay.
std::string one_device(double rate, uint64_t lanes, double cv) {
  return "length: 1000s\n"
         "hosts:\n"
         "  - {name: front, roles: [gateway, controller]}\n"
         "  - name: worker\n"
         "    roles: [worker]\n"
         "    devices: [{kind: d, lanes: "
         + std::to_string(lanes) + ", emulate: {cv: " + std::to_string(cv)
         + "}}]\n"
           "bundles: {m: {execute: {d: {1: 10ms}}}}\n"
           "models: [{model: m, policy: {batch: 1, queue: 100000, drop:"
           " never}}]\n"
           "network: {host: {speed: 0B/s, latency: 0s}, clients: {latency:"
           " 0s}}\n"
           "workload: [{model: m, rate: "
         + std::to_string(rate) + ", deadline: 600s}]\n";
}

/// Mean wait of the requests, in seconds.
double mean_wait(const simulator::record& run) {
  double sum = 0;
  for (auto& x : run.requests)
    sum += to_seconds(x.queue);
  return sum / static_cast<double>(run.requests.size());
}

/// Erlang C: the probability to wait with c servers and offered load a.
double erlang_c(double a, int c) {
  double term = 1, sum = 1;
  for (int k = 1; k < c; ++k)
    sum += term *= a / k;
  auto last = term * a / c * c / (c - a);
  return last / (sum + last);
}

} // namespace

TEST_CASE("device: waits at one lane with constant run times match M/D/1") {
  for (auto load : {0.5, 0.8}) {
    auto run = run_of(scenario_of(one_device(100 * load, 1, 0)));
    auto expected = load / (2 * 100 * (1 - load));
    CAPTURE(load);
    CHECK(mean_wait(run) == doctest::Approx(expected).epsilon(0.06));
  }
}

TEST_CASE("device: waits at one lane with exponential run times match M/M/1") {
  auto run = run_of(scenario_of(one_device(70, 1, 1)));
  CHECK(mean_wait(run) == doctest::Approx(0.7 / (100 - 70)).epsilon(0.1));
}

TEST_CASE("device: waits at several lanes match M/M/c") {
  auto run = run_of(scenario_of(one_device(240, 3, 1)));
  auto expected = erlang_c(2.4, 3) / (300 - 240);
  CHECK(mean_wait(run) == doctest::Approx(expected).epsilon(0.05));
}

TEST_CASE("device: concurrent batches slow each other as the contention model"
          " predicts") {
  // Both lanes are always busy, so each batch takes 50 % longer.
  auto text = one_device(200, 2, 0);
  auto at = text.find("cv: 0.000000");
  text.replace(at, 12, "interference: {slowdown: 0.5}");
  at = text.find("length: 1000s");
  text.replace(at, 13, "length: 20s  ");
  auto run = run_of(scenario_of(text));
  size_t slowed = 0;
  for (auto& x : run.requests)
    slowed += x.execute >= 14'900us && x.execute <= 15'001us;
  CHECK(slowed > run.requests.size() * 9 / 10);
}

TEST_CASE("I27: goodput stays at its peak at three times the capacity for each"
          " batch time") {
  // Each dispatched batch must finish in time behind the earlier batches of its
  // replica. The deadline has room for two and a half of the longest batches.
  for (auto batch_ms : {5, 20, 100, 200}) {
    auto peak = 2 * 8 * 1000.0 / batch_ms;
    auto run = run_of(scenario_of(
      "length: 20s\n"
      "hosts:\n"
      "  - {name: front, roles: [gateway, controller]}\n"
      "  - {name: w, count: 2, roles: [worker], devices: [{kind: d}]}\n"
      "bundles: {m: {execute: {d: {8: "
      + std::to_string(batch_ms)
      + "ms}}}}\n"
        "models: [{model: m, replicas: 2, policy: {batch: 8}}]\n"
        "workload: [{model: m, rate: "
      + std::to_string(3 * peak) + ", deadline: 500ms}]\n"));
    std::vector<double> per_second(21);
    for (auto& x : run.requests)
      if (x.status == ec::ok)
        ++per_second[static_cast<size_t>(to_seconds(x.ended))];
    CAPTURE(batch_ms);
    double sum = 0;
    for (size_t i = 1; i < 19; ++i) {
      // The count per second varies by one batch. The router learns during ten
      // batches.
      if (i >= 2)
        CHECK(per_second[i] >= 0.95 * peak - 16);
      sum += per_second[i];
    }
    CHECK(sum / 18 >= 0.95 * peak);
  }
}

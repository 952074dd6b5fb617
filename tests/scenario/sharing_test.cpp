// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "simulator/explore.hpp"
#include "tests/support/runs.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

using simulator::batch_row;

/// One device with batches of 10 ms and a network without delay. `sharing`:
/// YAML of the device. `workload`: YAML of requests for models "a" and "b".
std::string shared_device(uint64_t lanes, const std::string& sharing,
                          const std::string& workload,
                          const std::string& length = "20s",
                          uint64_t gateways = 1) {
  return "length: " + length
         + "\n"
           "hosts:\n"
           "  - {name: front, count: "
         + std::to_string(gateways)
         + ", roles: [gateway]}\n"
           "  - {name: lead, roles: [controller]}\n"
           "  - name: worker\n"
           "    roles: [worker]\n"
           "    devices: [{kind: d, lanes: "
         + std::to_string(lanes) + ", sharing: " + sharing
         + ", emulate: {cv: 0}}]\n"
           "bundles: {a: {execute: {d: {1: 10ms}}}, b: {like: a}}\n"
           "models:\n"
           "  - {model: a, policy: {batch: 1, queue: 100000, drop: never}}\n"
           "  - {model: b, policy: {batch: 1, queue: 100000, drop: never}}\n"
           "network: {host: {speed: 0B/s, latency: 0s}, clients: {latency:"
           " 0s}}\n"
           "workload: "
         + workload + "\n";
}

/// A workload for one model, as YAML.
std::string requests_for(const std::string& model, const std::string& more) {
  return "{model: " + model + ", deadline: 600s, " + more + "}";
}

simulator::record run_shared(const std::string& text) {
  return run_of(scenario_of(text));
}

/// The batches of one model, or of all.
std::vector<batch_row> batches_of(const simulator::record& run,
                                  const std::string& model = "") {
  std::vector<batch_row> out;
  for (auto& x : run.batches)
    if (model.empty() || run.names[x.model].starts_with(model))
      out.push_back(x);
  std::sort(out.begin(), out.end(),
            [](auto& a, auto& b) { return a.started < b.started; });
  return out;
}

/// Total time in a period during which exactly `count` batches run.
microseconds time_with(size_t count, const std::vector<batch_row>& batches,
                       microseconds begin, microseconds end) {
  std::vector<std::pair<microseconds, int>> changes;
  for (auto& x : batches) {
    changes.emplace_back(std::clamp(x.started, begin, end), 1);
    changes.emplace_back(std::clamp(x.ended, begin, end), -1);
  }
  changes.emplace_back(end, 0);
  std::sort(changes.begin(), changes.end());
  microseconds out{0}, since = begin;
  int running = 0;
  for (auto& [when, by] : changes) {
    if (static_cast<size_t>(running) == count)
      out += when - since;
    since = when;
    running += by;
  }
  return out;
}

/// The maximum number of concurrent batches.
size_t peak_of(const std::vector<batch_row>& batches) {
  size_t out = 0;
  for (size_t n = 1; n <= 16; ++n)
    if (time_with(n, batches, 0s, 3600s) > 0us)
      out = n;
  return out;
}

} // namespace

TEST_CASE("device sharing: two busy replicas with per_replica 1 overlap each"
          " other and never themselves") {
  auto run =
    run_shared(shared_device(2, "{per_replica: 1}",
                             "[" + requests_for("a", "rate: 300") + ", "
                               + requests_for("b", "rate: 300") + "]"));
  CHECK(peak_of(batches_of(run, "a")) == 1);
  CHECK(peak_of(batches_of(run, "b")) == 1);
  CHECK(batches_of(run, "a").size() > 1000);
  // Both replicas run all the time.
  CHECK(time_with(2, batches_of(run), 1s, 19s) > 17'900ms);
}

TEST_CASE("device sharing: without a limit one busy replica takes both lanes") {
  auto run = run_shared(
    shared_device(2, "{}", "[" + requests_for("a", "rate: 300") + "]"));
  CHECK(peak_of(batches_of(run)) == 2);
}

TEST_CASE("device sharing: waits of one replica with per_replica 1 on two lanes"
          " match M/D/1") {
  constexpr double service = 0.010; // seconds
  for (auto load : {0.5, 0.8}) {
    auto run = run_shared(shared_device(
      2, "{per_replica: 1}",
      "[" + requests_for("a", "rate: " + std::to_string(load / service)) + "]",
      "1000s"));
    double sum = 0;
    for (auto& x : run.requests)
      sum += to_seconds(x.queue);
    auto mean = sum / static_cast<double>(run.requests.size());
    CAPTURE(load);
    MESSAGE("load " << load << ": mean wait " << 1000 * mean << " ms");
    CHECK(mean
          == doctest::Approx(load * service / (2 * (1 - load))).epsilon(0.05));
  }
}

TEST_CASE("PA-41, PA-42: in mode wave three of six batches overlap and the rest"
          " runs one at a time in each burst") {
  auto burst = [](const char* start) {
    return requests_for("a", std::string{"arrivals: constant, rate: 10000,"
                                         " length: 650us, start: "}
                               + start);
  };
  auto run =
    run_shared(shared_device(4, "{mode: wave, at_once: 3}",
                             "[" + burst("1s") + ", " + burst("2s") + "]"));
  auto all = batches_of(run);
  REQUIRE(all.size() == 12);
  for (size_t begin : {0u, 6u}) {
    std::vector<batch_row> six{all.begin() + static_cast<long>(begin),
                               all.begin() + static_cast<long>(begin) + 6};
    CHECK(peak_of({six.begin(), six.begin() + 3}) == 3);
    for (size_t i = 3; i < 6; ++i)
      for (size_t k = 0; k < i; ++k)
        CHECK(six[k].ended <= six[i].started);
  }
}

TEST_CASE("device sharing: mode cap with at_once 3 runs exactly three batches"
          " while enough are queued") {
  auto run =
    run_shared(shared_device(4, "{mode: cap, at_once: 3}",
                             "[" + requests_for("a", "rate: 300") + ", "
                               + requests_for("b", "rate: 300") + "]"));
  CHECK(peak_of(batches_of(run)) == 3);
  CHECK(time_with(3, batches_of(run), 1s, 19s) > 17'900ms);
}

TEST_CASE("device sharing: several gateways together cannot exceed a limit") {
  struct row {
    std::string sharing;
    size_t of_device, of_replica;
  };
  const row table[] = {{"{mode: time}", 1, 1},
                       {"{mode: cap, at_once: 2}", 2, 2},
                       {"{mode: space, per_replica: 2}", 4, 2},
                       {"{mode: wave, at_once: 3}", 3, 3},
                       {"{per_replica: 1}", 2, 1}};
  for (auto& [sharing, of_device, of_replica] : table) {
    auto& text = sharing; // lambdas cannot capture a structured binding
    CAPTURE(text);
    auto run =
      run_shared(shared_device(4, sharing,
                               "[" + requests_for("a", "rate: 300") + ", "
                                 + requests_for("b", "rate: 300") + "]",
                               "5s", 3));
    CHECK(peak_of(batches_of(run)) == of_device);
    CHECK(peak_of(batches_of(run, "a")) <= of_replica);
    CHECK(peak_of(batches_of(run, "b")) <= of_replica);
  }
}

TEST_CASE("I31: explored seeds of shared devices exceed no limit") {
  auto what = load_scenario(MILLRACE_SOURCE "/config/scenarios/storm.yaml");
  REQUIRE(what);
  what->spec.explore.vary = {variation::lanes, variation::sharing};
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    auto found = simulator::explore_seed(*what, seed, {});
    REQUIRE(found);
    for (auto& x : found->violations)
      FAIL_CHECK(x.invariant << ": " << x.what);
    CHECK(found->requests >= 1000);
  }
}

TEST_CASE("sharing: a scope limits a device of two lanes to one batch at a time"
          " while it serves") {
  auto text = shared_device(2, "{}",
                            "[" + requests_for("a", "rate: 60") + ", "
                              + requests_for("b", "rate: 60") + "]",
                            "10s");
  auto given = std::string{"scaling: {policy: given, options: {groups: whole,"
                           " devices: d time}}"};
  auto at = text.find("{model: b, policy:");
  REQUIRE(at != std::string::npos);
  auto run = run_shared(text.insert(at + 1, given + ", "));
  auto batches = batches_of(run);
  CHECK(batches.size() > 500);
  CHECK(time_with(2, batches, 1s, 10s) == 0us);
}

TEST_CASE("times: interference by device and by request is the time added by"
          " concurrent batches") {
  auto text =
    shared_device(2, "{}",
                  "[" + requests_for("a", "arrivals: constant, rate: 20") + ", "
                    + requests_for("b", "rate: 20") + "]");
  auto cv = text.find("cv: 0");
  text.replace(cv, 5, "cv: 0, interference: {model: linear, slowdown: 0.5}");
  auto run = run_shared(text);
  REQUIRE(run.requests.size() > 500);
  size_t slowed = 0;
  for (auto& x : run.requests) {
    if (x.ended < 0us)
      continue; // the end of the run
    CHECK(std::abs((x.execute - x.interference - 10ms).count()) <= 1);
    CHECK(std::abs((x.ended - x.sent - x.queue - x.execute).count()) <= 1);
    slowed += x.interference > 0us;
  }
  CHECK(slowed > 100);
}

TEST_CASE("device sharing: a replica gets the batches that its device admits"
          " and the others go to a free replica") {
  auto run = run_shared(
    "length: 20s\n"
    "hosts:\n"
    "  - {name: front, roles: [gateway, controller]}\n"
    "  - {name: capped, roles: [worker], devices: [{kind: d, lanes: 4,"
    " sharing: {mode: time}, emulate: {cv: 0}}]}\n"
    "  - {name: plain, roles: [worker], devices: [{kind: d, lanes: 1, emulate:"
    " {cv: 0}}]}\n"
    "bundles: {a: {execute: {d: {1: 10ms}}}}\n"
    "models: [{model: a, replicas: 2, policy: {batch: 1}}]\n"
    "network: {host: {speed: 0B/s, latency: 0s}, clients: {latency: 0s}}\n"
    "workload: [{model: a, arrivals: constant, rate: 180}]\n");
  auto batches = batches_of(run);
  size_t capped = 0;
  for (auto& x : batches)
    capped += run.names[x.device].starts_with("capped");
  auto part = static_cast<double>(capped) / static_cast<double>(batches.size());
  CHECK(part > 0.45);
  CHECK(part < 0.55);
  for (auto& x : run.requests)
    if (x.status)
      CHECK(x.ended - x.sent <= 20ms);
}

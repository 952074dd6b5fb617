// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/support/runs.hpp"

/// \file
/// Start times of replicas from each tier, and the bytes moved.

using namespace millrace;
using namespace millrace::test;

namespace {

/// Times in seconds from the decision until the replica is ready, by source.
std::map<std::string, std::vector<double>>
starts_in(const simulator::record& run) {
  std::map<std::string, std::vector<double>> out;
  for (auto& x : run.replicas) {
    REQUIRE(x.ready);
    out[x.source].push_back(to_seconds(*x.ready - x.decided.value_or(x.begun)));
  }
  return out;
}

/// One start of a model of 100 MB that takes 1 s to attach and 0.5 s to send.
/// `host`: config keys of the worker. `device`: config keys of the emulated
/// devices.
std::string one_start(const std::string& host, const std::string& device,
                      const std::string& bundle, int replicas = 1,
                      const std::string& more = "") {
  return "length: 20s\nwarm_up: 1s\nchunk: 1MB\n"
         "hosts:\n"
         "  - {name: front, roles: [gateway, controller]}\n"
         "  - {name: w, roles: [worker], "
         + host + "devices: [{kind: d, count: 2, emulate: {" + device
         + "}}]}\n"
           "network: {store: {speed: 800Mbit/s, latency: 1ms}}\n"
           "bundles: {m: {bytes: 100MB, layers: 4, execute: {d: {1: 10ms}},"
           " load: {d: 1500ms}, send: {d: 500ms}, "
         + bundle
         + "}}\nmodels: [{model: m, replicas: " + std::to_string(replicas)
         + ", policy: {batch: 1}}]\nworkload: [{model: m, rate: 1}]\n" + more;
}

std::vector<double> times_of(const std::string& text) {
  std::vector<double> out;
  for (auto& [source, times] : starts_in(run_of(scenario_of(text))))
    out.insert(out.end(), times.begin(), times.end());
  std::sort(out.begin(), out.end());
  return out;
}

bool is_about(double found, double expected) {
  return std::abs(found / expected - 1) < 0.04;
}

} // namespace

TEST_CASE("tiers: a start of T5-3B takes 56.8 s from the store and 27.5 s from"
          " another host and 1.2 s from the host process") {
  auto found = starts_in(run_example("t5-starts.yaml"));
  auto took = [&](const char* source) {
    REQUIRE(found[source].size() == 1);
    return found[source][0];
  };
  CHECK(std::abs(took("store") / 56.8 - 1) < 0.01);
  CHECK(std::abs(took("hosts") / 27.5 - 1) < 0.01);
  CHECK(std::abs(took("memory") / 1.2 - 1) < 0.01);
}

TEST_CASE("tiers: 40 concurrent starts read the object store once with a chain"
          " and 40 times without chains") {
  constexpr double one_copy = 11.408e9;
  auto chain = run_example("t5-burst.yaml");
  CHECK(std::abs(static_cast<double>(chain.store_bytes) / one_copy - 1)
        < 0.001);
  auto times = starts_in(chain);
  CHECK(times["store"].size() == 1);
  REQUIRE(times["hosts"].size() == 39);
  // One chunk of 64 MiB takes 72 ms between two hosts.
  for (auto x : times["hosts"])
    CHECK(x < times["store"][0] + 39 * 0.08);
  auto alone = run_example(
    "t5-burst.yaml", {"bulk.topology=unicast", "length=2000s",
                      "workload=[{model: t5-3b, rate: 0.1, deadline: 1h}]"});
  CHECK(std::abs(static_cast<double>(alone.store_bytes) / (40 * one_copy) - 1)
        < 0.001);
}

TEST_CASE("tiers: a load overlaps the transfer of its bytes or begins after the"
          " transfer") {
  auto streamed = times_of(one_start("", "steps: streamed", "at: store"));
  auto sequential = times_of(one_start("", "steps: sequential", "at: store"));
  REQUIRE(streamed.size() == 1);
  REQUIRE(sequential.size() == 1);
  // The load begins when the first chunks with the table of weights have
  // arrived.
  CHECK(streamed[0] > 1.5);
  CHECK(streamed[0] < 1.8);
  CHECK(is_about(sequential[0], 2.5));
}

TEST_CASE("tiers: loads from the disk of a host share its bandwidth") {
  const std::string disk = "disk: {speed: 100MB/s}, ";
  auto one = times_of(one_start(disk, "steps: sequential", "at: host"));
  REQUIRE(one.size() == 1);
  CHECK(is_about(one[0], 2.5));
  // Two models at once: 200 MB.
  auto text = one_start(disk, "steps: sequential", "at: host");
  text.replace(text.find("}}\nmodels: ["), 12,
               ", }, n: {like: m, bytes: 100MB, layers: 4}}\nmodels: [{model:"
               " n, policy: {batch: 1}}, ");
  auto both = times_of(text);
  REQUIRE(both.size() == 2);
  CHECK(is_about(both[0], 3.5));
  CHECK(is_about(both[1], 3.5));
}

TEST_CASE("tiers: the second replica on a host finds its model in memory") {
  auto found = starts_in(run_of(scenario_of(one_start(
    "disk: {speed: 100MB/s}, ", "steps: sequential", "at: host", 2))));
  // Both replicas start at once and wait for the same bytes.
  for (auto& [source, times] : found)
    for (auto x : times)
      CHECK(is_about(x, 2.5));
}

TEST_CASE("tiers: a host attaches a model once or per replica or never") {
  auto with = [](const std::string& device) {
    return times_of(one_start("", device, "at: host", 2));
  };
  auto each = with("attach: replica");
  REQUIRE(each.size() == 2);
  CHECK(is_about(each[0], 1.5));
  CHECK(is_about(each[1], 1.5));
  auto never = with("attach: never");
  CHECK(is_about(never[0], 0.5));
  CHECK(is_about(never[1], 0.5));
}

TEST_CASE("tiers: a replica of a model that the host process has attached is"
          " forked and reads it there") {
  // The first replica ends at 5 s and starts again.
  auto run = run_of(scenario_of(one_start(
    "disk: {speed: 1GB/s}, ", "attach: host, fork: 200ms, steps: sequential",
    "at: host", 1,
    "faults: [{kind: crash, nodes: [w], actor: replica, at: 5s}]\n")));
  REQUIRE(run.replicas.size() == 2);
  auto took = [&](size_t i) {
    return to_seconds(*run.replicas[i].ready - *run.replicas[i].decided);
  };
  CHECK(is_about(took(0), 1.6));
  CHECK(run.replicas[1].source == "memory");
  CHECK(is_about(took(1), 0.7));
}

TEST_CASE("tiers: a host finds the models in its disk cache after a restart") {
  auto run = [](const std::string& host) {
    auto out = run_of(scenario_of(
      one_start(host, "steps: sequential", "at: store", 1,
                "faults: [{kind: kill, nodes: [w], at: 8s, lasts: 2s}]\n")));
    REQUIRE(out.replicas.size() == 2);
    return out.replicas[1].source;
  };
  CHECK(run("disk: {keeps: 1GB, speed: 200MB/s}, ") == "host");
  CHECK(run("") == "store");
}

TEST_CASE("tiers: a model larger than the memory of a host does not start"
          " there") {
  auto run = run_of(
    scenario_of(one_start("memory: 50MB, ", "steps: streamed", "at: store")));
  for (auto& x : run.replicas)
    CHECK_FALSE(x.ready);
}

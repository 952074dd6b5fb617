// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "config/scenario.hpp"
#include "runtime/bytes.hpp"

using namespace millrace;

namespace {

const std::string good = "length: 10s\n"
                         "hosts:\n"
                         "  - {name: front, roles: [gateway, controller]}\n"
                         "  - name: w\n"
                         "    count: 4\n"
                         "    rack: r\n"
                         "    rack_size: 2\n"
                         "    roles: [worker]\n"
                         "    price: 2.5\n"
                         "    devices: [{kind: v100, count: 2}]\n"
                         "bundles:\n"
                         "  a: {execute: {v100: {1: 10ms, 8: 24ms}}}\n"
                         "  b: {like: a, times: 3}\n"
                         "models: [{model: a}]\n"
                         "workload: [{model: a}]\n";

/// The error of `good` with one part replaced.
std::string error_of(const std::string& from, const std::string& to) {
  auto text = good;
  auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  auto x = parse_scenario(text, "s.yaml");
  REQUIRE_FALSE(x);
  CHECK(x.failure().code == ec::bad_config);
  return x.failure().text;
}

} // namespace

TEST_CASE("scenario: a group of hosts becomes nodes in racks") {
  auto x = parse_scenario(good, "s.yaml");
  REQUIRE(x);
  CHECK(x->cluster.nodes.size() == 5);
  CHECK(x->cluster.nodes.at("w-3").rack == "r-2");
  CHECK(x->cluster.nodes.at("w-4").devices.size() == 2);
  CHECK(x->cluster.nodes.at("w-4").devices[1].id == "v100.1");
  CHECK(x->price.at("w-1") == 2.5);
  CHECK(nodes_of(*x, "w").size() == 4);
  CHECK(nodes_of(*x, "w-2") == std::vector<std::string>{"w-2"});
}

TEST_CASE("scenario: the sharing of a group's devices is read and limited by "
          "their lanes") {
  auto text = good;
  auto at = text.find("count: 2}]");
  text.replace(at, 9, "count: 2, lanes: 3, sharing: {mode: wave, at_once: 2}}");
  auto x = parse_scenario(text, "s.yaml");
  REQUIRE(x);
  CHECK(x->cluster.nodes.at("w-1").devices[1].sharing
        == device_sharing{sharing_mode::wave, 2, 0});
  CHECK(error_of("count: 2}]", "count: 2, sharing: {mode: cap, at_once: 2}}]")
          .find("hosts[1].devices[0].sharing.at_once: found 2, expected at most"
                " 1 (lanes of the device)")
        != std::string::npos);
}

TEST_CASE(
  "scenario: a model with `like` has the multiplied times of another model") {
  auto x = parse_scenario(good, "s.yaml");
  REQUIRE(x);
  auto of = [&](const char* model, double rows) {
    return curve_of(*x->profiles->find(model), "execute_seconds", "v100")
      .at(rows);
  };
  CHECK(of("a", 1) == doctest::Approx(0.010));
  CHECK(of("b", 1) == doctest::Approx(0.030));
  CHECK(of("b", 8) == doctest::Approx(0.072));
}

TEST_CASE("scenario: a real cluster's config can be simulated") {
  auto path =
    std::string{MILLRACE_SOURCE} + "/config/scenarios/quickstart.yaml";
  auto x = load_scenario(path);
  REQUIRE(x);
  CHECK(x->cluster.nodes.size() == 3);
  CHECK(x->spec.models.size() == 4);
}

TEST_CASE("scenario: an error is named with file and line and key") {
  CHECK(error_of("count: 4", "count: many")
        == "s.yaml:5: hosts[1].count: expected a whole number, found 'many'");
  CHECK(error_of("roles: [worker]", "roles: []")
          .find("s.yaml:4: hosts[1]: has no roles")
        == 0);
  CHECK(
    error_of("like: a", "like: c")
      .find("s.yaml:13: bundles.b.like: no model 'c' under 'bundles'; there are"
            " a, b")
    == 0);
  CHECK(error_of("{model: a}]\nworkload", "{model: z}]\nworkload")
          .find("s.yaml:14: models[0].model: no model 'z'")
        == 0);
  CHECK(error_of("workload: [{model: a}]", "workload: [{rate: 5}]")
        == "s.yaml:15: workload[0]: expected one of model, application and"
           " mix");
  CHECK(error_of("workload: [{model: a}]",
                 "workload: [{model: a, arrivals: rates, file: nowhere.csv}]")
          .find("s.yaml:15: workload[0].file: there is no file ")
        == 0);
  CHECK(error_of("1: 10ms", "one: 10ms")
        == "s.yaml:12: bundles.a.execute.v100: expected numbers of rows, found"
           " 'one'");
  CHECK(error_of("length: 10s", "length: 10s\nfaults: [{kind: kill}]")
        == "s.yaml:2: faults[0]: expected one of 'at', 'every' and 'each'");
  CHECK(error_of("length: 10s", "length: 10s\nfaults: [{at: 1s, nodes: [x]}]")
        == "s.yaml:2: faults[0].nodes[0]: no node or host group is called 'x'");
  CHECK(error_of("[gateway, controller]", "[controller]")
          .find("workload: no host is a gateway")
        != std::string::npos);
  CHECK(error_of("length: 10s", "length: 10s\nnetwork: {host: {speed: fast}}")
          .find("s.yaml:2: network.host.speed: 'fast' does not begin with a"
                " number (expected like 10Gbit/s)")
        == 0);
}

TEST_CASE("scenario: a key without effect is refused") {
  auto says = [](const std::string& from, const std::string& to,
                 const std::string& what) {
    auto found = error_of(from, to);
    CAPTURE(found);
    CHECK(found.find(what) != std::string::npos);
  };
  auto line = [&](const std::string& more, const std::string& what) {
    says("length: 10s\n", "length: 10s\n" + more + "\n", what);
  };
  line("network: {links: {nowhere: {speed: 1Gbit/s}}}",
       "s.yaml:2: network.links.nowhere: no host or rack has that name");
  line("network: {host: {speed: 1bit/s}}",
       "network.host.speed: expected 0 or at least 1 kbit/s");
  line("faults: [{at: 11s}]", "faults[0].at: is after the end of the run");
  line("faults: [{each: 1us}]", "faults[0].each: makes more than 100,000");
  line("faults: [{each: 11s}]", "faults[0].each: is longer than the run");
  line("faults: [{each: 2s, at: 1s}]",
       "faults[0]: expected one of 'at', 'every' and 'each'");
  line("faults: [{each: 2s, nodes: ['in-use:z']}]",
       "faults[0].nodes[0]: no model 'z' under 'bundles'");
  line("faults: [{each: 2s, nodes: ['in-use:']}]",
       "faults[0].nodes[0]: no node or host group is called 'in-use:'");
  line("faults: [{every: 1us}]", "faults[0].every: makes more than 100,000");
  line("faults: [{kind: crash, at: 1s, actor: nosuch}]",
       "faults[0].actor: expected monitor, gateway, router,");
  line("faults: [{kind: crash, at: 1s, actor: gatewayfoo}]",
       "found 'gatewayfoo'");
  line("faults: [{kind: crash, at: 1s, actor: cache, nodes: [front]}]",
       "faults[0].nodes: 'front' has no cache: it is no worker");
  line("explore: {storm: 0.9, settled: 0.1}",
       "explore.settled: is before the storm is over");
  line("faults: [{at: 1s, part: 0.5}]",
       "faults[0].part: does nothing with kill; only with loss, device,");
  line("faults: [{at: 1s, kind: loss, part: 1.5}]",
       "faults[0].part: expected between 0 and 1, found '1.5'");
  line("faults: [{at: 1s, kind: crash, lasts: 2s}]",
       "faults[0].lasts: does nothing with crash");
  says("workload: [{model: a}]", "workload: [{model: a, cv: 4}]",
       "workload[0].cv: does nothing with poisson; only with gamma");
  line("faults: [{kind: device, at: 1s, nodes: [front]}]",
       "faults[0].nodes[0]: 'front' has no device");
  says("kind: v100", "kind: v99",
       "hosts[1].devices[0].kind: no model has times for 'v99'");
  says("kind: v100,",
       "kind: v100, emulate: {interference: {model: bandwidth}},",
       "no model's profile has the metric bandwidth_share on 'v100'");
  says("kind: v100,", "kind: v100, emulate: {interference: {model: wsm}},",
       "no model's profile has the metric wsm_percent on 'v100'");
  auto interference = [&](const std::string& law, const std::string& what) {
    says("kind: v100,",
         "kind: v100, lanes: 2, emulate: {interference: {" + law + "}},",
         "hosts[1].devices[0].emulate.interference." + what);
  };
  interference("factor: 2",
               "factor: does nothing with linear; only with power");
  interference("model: power, kappa: 1", "kappa: does nothing with power");
  interference("model: power, factor: 101",
               "factor: expected between 0 and 100, found '101'");
  interference("model: table", "slowdowns: expected at least 2 (lanes of the"
                               " device), found 0");
  interference("model: table, slowdowns: [1, 0.9]",
               "slowdowns[1]: expected between 1 and 100, found 0.9");
  interference("model: drawn, extra_min: 0.6",
               "extra_min: is above extra_max (0.5)");
  says("kind: v100,",
       "kind: v100, emulate: {interference: {pairs: {a+b: -0.5}}},",
       "interference.pairs.a+b: expected between 0 and 100, found -0.5");
  says("[{model: a}]\nworkload", "[{model: a, device: z}]\nworkload",
       "models[0].device: no node has a device 'z'");
  says("[gateway, controller]", "[gateway]",
       "models: no host is a controller, so nothing is ever loaded");
  says("a: {execute", "a: {on: [nowhere], execute",
       "bundles.a.on: there is no host 'nowhere'");
  says("a: {execute", "a: {on: [front], at: store, execute",
       "bundles.a.on: found beside 'at: store'; expected only one");
  says("workload: [{model: a}]", "workload: [{application: x}]",
       "workload[0].application: no model under 'bundles' is a variant of 'x'");
  says("workload: [{model: a}]", "workload: [{mix: {a: 0, b: 0}}]",
       "workload[0].mix: expected a weight of more than 0");
}

TEST_CASE(
  "scenario: an option that the arrival process does not have is refused") {
  auto part = [](const std::string& more, const std::string& what) {
    auto found = error_of("workload: [{model: a}]",
                          "workload: [{model: a, " + more + "}]");
    CAPTURE(found);
    CHECK(found.find("workload[0]." + what) != std::string::npos);
  };
  part("each: gamma", "each: does nothing with poisson; only with functions");
  part("arrivals: functions, cv: 2",
       "cv: does nothing with poisson; only with gamma");
  part("arrivals: functions, each: gamma, burst_part: 0.5",
       "burst_part: does nothing with gamma; only with on_off");
  part("peak: 3", "peak: does nothing with poisson; only with rates, times,");
  part("offset: 3s", "offset: does nothing with poisson");
  part("arrivals: times, file: s.csv, surges: [{at: 1s}]",
       "surges: does nothing with times");
  part("arrivals: rates, file: s.csv, diurnal: {depth: 0.5}",
       "diurnal: does nothing with rates");
  part("arrivals: rates, file: s.csv, peak: 3, scale: 2",
       "scale: found beside peak; expected only one");
  part("requests: 10, rate: 3",
       "rate: found beside requests; expected only one");
  part("surges: [{every: 1us}]",
       "surges[0].every: makes more than 100,000 surges");
  part("surges: [{times: -1}]",
       "surges[0].times: expected between 0 and 10000, found '-1'");
  part("diurnal: {depth: 1}",
       "diurnal.depth: expected between 0 and 0.99, found '1'");
  part("granularity: 2h", "granularity: expected between 0 us and 60 min");
  part("requests: 100000001", "requests: expected between 0 and 100000000");
  part("deadline: 25h", "deadline: expected between 0 us and 24 h");
}

TEST_CASE("scenario: a bundle or request beyond the limits is refused") {
  CHECK(error_of("a: {execute", "a: {bytes: 10TiB, execute")
          .find("bundles.a.bytes: travels in more than a million chunks")
        != std::string::npos);
  auto text = good;
  text.replace(text.find("a: {execute"), 11, "a: {input: 100kB, execute");
  text.replace(text.find("workload: [{model: a}]"), 22,
               "workload: [{model: a, rows: 4096}]");
  auto x = parse_scenario(text, "s.yaml");
  REQUIRE_FALSE(x);
  CHECK(x.failure().text
        == "s.yaml:15: workload[0].rows: makes 391 MiB of a; a message holds"
           " 256 MiB");
}

TEST_CASE("scenario: the nodes of a group are those made from it even with "
          "similar names") {
  auto text = good;
  text.replace(text.find("  - {name: front"), 0,
               "  - {name: w-9, roles:"
               " [worker]}\n");
  auto x = parse_scenario(text, "s.yaml");
  REQUIRE(x);
  CHECK(nodes_of(*x, "w").size() == 4);
  CHECK(nodes_of(*x, "w-9") == std::vector<std::string>{"w-9"});
}

TEST_CASE("scenario: the reference page equals the declarations") {
  auto page = read_file(MILLRACE_SOURCE "/config/SCENARIOS.md", 1 << 20);
  REQUIRE(page);
  INFO("build/bin/millrace simulate --options prints the table");
  CHECK(page->find(scenario_reference()) != std::string::npos);
}

TEST_CASE("scenario: the catalogue gives memory and price and the times of a "
          "similar kind") {
  auto text = good;
  auto at = text.find("{kind: v100, count: 2}");
  text.replace(at, 22, "{kind: m60, count: 2}");
  at = text.find("    price: 2.5\n");
  text.erase(at, 15);
  text = "catalogue: ../catalogue.yaml\n" + text;
  auto x = parse_scenario(text, MILLRACE_SOURCE "/config/scenarios/s.yaml");
  REQUIRE(x);
  auto& device = x->cluster.nodes.at("w-1").devices[0];
  CHECK(device.memory.value == 8'000'000'000);
  CHECK(x->price.at("w-1") == doctest::Approx(1.5));
  auto times = curve_of(*x->profiles->find("a"), "execute_seconds", "m60");
  CHECK(times.at(1) == doctest::Approx(0.056));
}

TEST_CASE("scenario: every example is valid") {
  for (auto name :
       {"small", "quickstart", "cold-starts", "gpus-1600", "gpus-64-dense",
        "storm", "truth", "machines", "flashpoint-starts", "t5-burst",
        "quart-key-stage", "paldia-exhaustion", "paldia-surge",
        "infaas-fluctuating", "e1-usher-6", "e1-ao-6", "e1-wsm-5"}) {
    auto path =
      std::string{MILLRACE_SOURCE} + "/config/scenarios/" + name + ".yaml";
    auto x = load_scenario(path);
    CAPTURE(path);
    CHECK(x);
  }
}

TEST_CASE("scenario: a cycle of `like` references is refused") {
  CHECK(error_of("{execute: {v100: {1: 10ms, 8: 24ms}}}", "{like: b}")
          .find("refers back to itself")
        != std::string::npos);
}

TEST_CASE("scenario: a model's deadline and SLO are at most a day") {
  auto with = [](const std::string& more) {
    return error_of("models: [{model: a", "models: [{model: a, " + more);
  };
  CHECK(with("policy: {deadline: 25h}")
          .find("models[0].policy.deadline: expected between 1 ms and 24 h")
        != std::string::npos);
  CHECK(with("slo: 25h").find("models[0].slo: expected between 0 us and 24 h")
        != std::string::npos);
  auto x = parse_scenario(
    good, "s.yaml", {"models[0].policy.deadline=24h", "models[0].slo=24h"});
  REQUIRE(x);
  CHECK(x->cluster.models[0].policy.deadline == 24h);
}

TEST_CASE("scenario: a goal needs requests for an application") {
  auto found = error_of("workload: [{model: a}]",
                        "workload: [{model: a, goal: {accuracy: 0.9}}]");
  CHECK(found.find("workload[0].goal: does nothing without 'application'")
        != std::string::npos);
  found = error_of("workload: [{model: a}]",
                   "workload: [{application: x, goal: {accuracy: 1.5}}]");
  CHECK(found.find("workload[0].goal.accuracy: expected between 0 and 1")
        != std::string::npos);
}

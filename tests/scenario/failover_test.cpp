// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "runtime/text.hpp"
#include "simulator/log_line.hpp"
#include "simulator/recorder.hpp"
#include "simulator/simulation.hpp"

using namespace millrace;
using namespace millrace::simulator;

namespace {

/// Five models in five scopes. Their load grows at 5 s, so that each model
/// needs two replicas. The controller is killed at `killed_at` and restarts 500
/// ms later.
std::string five_scopes(const std::string& killed_at, size_t gateways = 1) {
  std::string models, loads;
  for (auto* name : {"a", "b", "c", "d", "e"}) {
    models += "  - {model: " + std::string{name}
              + ", policy: {batch: 1}, scaling: {policy: arrival_rate, max: 2,"
                " options: {target: 0.95, window: 5s}}}\n";
    for (auto* part : {"rate: 20, length: 5s", "rate: 100, start: 5s"})
      loads += "  - {model: " + std::string{name}
               + ", arrivals: constant, deadline: 5s, " + part + "}\n";
  }
  std::string bundles;
  for (auto* name : {"a", "b", "c", "d", "e"})
    bundles += "  " + std::string{name}
               + ": {bytes: 1MiB, execute: {small: {1: 15ms}}, load: {small:"
                 " 300ms}}\n";
  auto faults = killed_at.empty()
                  ? std::string{}
                  : "faults:\n  - {kind: kill, nodes: [controller], at: "
                      + killed_at + ", lasts: 500ms}\n";
  return "name: five\nlength: 14s\nwarm_up: 5s\nhosts:\n  - {name: gateway,"
         " count: "
         + std::to_string(gateways)
         + ", roles: [gateway]}\n  - {name: controller, roles: [controller]}\n "
           " - {name: worker, count: 6, roles: [worker], devices: [{kind: "
           "small,"
           " count: 2}]}\nbundles:\n"
         + bundles + "models:\n" + models + "workload:\n" + loads + faults;
}

record run(const std::string& text) {
  auto what = parse_scenario(text, "five.yaml");
  REQUIRE_MESSAGE(what, what.failure().text);
  auto made = simulation::prepare(*what, {});
  REQUIRE(made);
  recorder notes{(*made)->begin(), what->spec.length};
  (*made)->add(notes);
  (*made)->run();
  (*made)->finish();
  return notes.take();
}

/// Number of events of one name, by the value of one field.
std::map<std::string, size_t> count(const record& x, const std::string& event,
                                    const char* field) {
  std::map<std::string, size_t> out;
  for (auto& e : x.events)
    if (e.what.starts_with(event + " "))
      ++out[std::string{field_of(e.what, field)}];
  return out;
}

} // namespace

TEST_CASE("failover: after the loss of a controller at any time in a scale-up"
          " the next evicts no replica and starts none twice") {
  for (int at = 5000; at <= 8000; at += 150) {
    CAPTURE(at);
    auto found = run(five_scopes(std::to_string(at) + "ms"));
    CHECK(count(found, "placement.evict", "replica").empty());
    auto started = count(found, "replica.ready", "replica");
    CHECK(started.size() == 10);
    for (auto& x : started)
      CHECK_MESSAGE(x.second == 1, x.first);
    for (auto& r : found.requests)
      if (r.ended >= 0us)
        CHECK(r.status == ec::ok);
  }
}

TEST_CASE("failover: running replicas keep their groups and a new controller"
          " scales down only after one full window") {
  auto found = run(five_scopes("9s"));
  CHECK(count(found, "placement.evict", "replica").empty());
  // A controller without nodes may decide for fewer replicas, without effect.
  std::map<std::string, uint64_t> last;
  for (auto& e : found.events)
    if (e.what.starts_with("autoscaler.scaled ") && e.at > 9s)
      last[std::string{field_of(e.what, "model")}] =
        *number_in<uint64_t>(field_of(e.what, "to"));
  for (auto& x : last)
    CHECK_MESSAGE(x.second == 2, x.first);
}

TEST_CASE("scaling: the replica counts do not depend on the number of"
          " gateways") {
  for (size_t gateways : {1, 2, 5}) {
    CAPTURE(gateways);
    auto found = run(five_scopes("", gateways));
    auto started = count(found, "replica.ready", "replica");
    CHECK(started.size() == 10);
    CHECK(count(found, "placement.evict", "replica").empty());
  }
}

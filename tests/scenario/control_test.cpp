// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>

#include "actors/policies/state/deltas.hpp"
#include "models/packed_profile.hpp"
#include "tests/support/parts.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Names of the ready replicas on w1 to wN, by their layers.
std::map<std::string, std::set<std::string>> groups_on(virtual_cluster& c,
                                                       size_t workers) {
  std::map<std::string, std::set<std::string>> out;
  for (size_t i = 1; i <= workers; ++i) {
    auto status = *c.ask_actor<node_status, supervisor_actor>(
      "w" + std::to_string(i) + "/supervisor", get_status{});
    for (auto& r : status.replicas)
      if (r.state == replica_condition::ready)
        out[std::to_string(r.what.layers.first) + "-"
            + std::to_string(r.what.layers.last)]
          .insert(r.what.replica);
  }
  return out;
}

size_t replicas_on(virtual_cluster& c, size_t workers) {
  size_t out = 0;
  for (auto& [group, names] : groups_on(c, workers))
    out += names.size();
  return out;
}

void pin(virtual_cluster& c, const std::string& model,
         const std::string& groups, microseconds time = 0us) {
  auto done = c.ask_actor<ack, registry_actor>("./registry",
                                               pin_model{model, groups, time});
  REQUIRE_MESSAGE(done, done.failure().text);
}

model_settings follows_load() {
  auto out = one_by_one(1);
  out.scaling.policy = "arrival_rate";
  out.scaling.options = {{"cooldown", "0s"}, {"window", "1s"}};
  return out;
}

size_t starts_in(virtual_cluster& c) {
  return c.ask_actor<start_list, placement_actor>("./placement", get_starts{})
    ->starts.size();
}

} // namespace

TEST_CASE("pin: groups set by an operator stay until unpin and survive a"
          " restart of the controller actors") {
  virtual_cluster c{4, follows_load(), ten_ms};
  CHECK(replicas_on(c, 4) == 1);
  pin(c, "m", "whole x3");
  c.advance(2s);
  CHECK(replicas_on(c, 4) == 3);
  c.advance(20s); // without the pin the policy would choose fewer
  CHECK(replicas_on(c, 4) == 3);
  auto scaling =
    *c.ask_actor<scaling_list, autoscaler_actor>("./autoscaler", get_scaling{});
  REQUIRE(scaling.models.size() == 1);
  CHECK(scaling.models[0].scope == "pin/m");
  auto before = groups_on(c, 4);
  c.crash("./registry");
  c.advance(10s);
  CHECK(groups_on(c, 4) == before);
  REQUIRE(c.ask_actor<ack, registry_actor>("./registry", unpin_model{"m"}));
  c.advance(20s);
  CHECK(replicas_on(c, 4) == 1);
}

TEST_CASE("pin: a pin ends when its time expires") {
  virtual_cluster c{4, follows_load(), ten_ms};
  pin(c, "m", "whole x2", 10s);
  c.advance(9s);
  CHECK(replicas_on(c, 4) == 2);
  c.advance(10s);
  CHECK(replicas_on(c, 4) == 1);
}

TEST_CASE("pin: a pin that expires while the controller is down ends when the"
          " controller is back") {
  virtual_cluster c{4, follows_load(), ten_ms};
  pin(c, "m", "whole x2", 3s);
  c.advance(1s);
  CHECK(replicas_on(c, 4) == 2);
  c.kill("front");
  c.advance(10s);
  c.node("front").start();
  c.advance(30s);
  CHECK(replicas_on(c, 4) == 1);
  REQUIRE(!c.ask_actor<ack, registry_actor>("./registry", unpin_model{"m"}));
}

TEST_CASE("pin: invalid groups and an unknown model and a model without a pin"
          " are refused") {
  virtual_cluster c{1, follows_load(), ten_ms};
  auto refused = [&](auto x) {
    auto done = c.ask_actor<ack, registry_actor>("./registry", x);
    REQUIRE(!done);
    return done.failure();
  };
  for (auto* groups : {"", "two", "whole x0", "cuts 8/4 x1", "cuts 4/4",
                       "whole x99999", "129 parts x1", "whole; whole x2"})
    CHECK(refused(pin_model{"m", groups, 0us}).code == ec::bad_request);
  CHECK(refused(pin_model{"x", "whole x2", 0us}).code == ec::unknown_model);
  CHECK(refused(unpin_model{"m"}).code == ec::unknown_model);
}

TEST_CASE("scope: the policy of an operator for a scope of several models is"
          " kept and unknown options are refused") {
  auto model = follows_load();
  model.scaling.policy.clear();
  model.scaling.options.clear();
  virtual_cluster c{4, model, ten_ms};
  scope_settings two;
  two.policy = "given";
  two.options = {{"groups", "whole x2"}};
  REQUIRE(c.ask_actor<ack, registry_actor>("./registry",
                                           set_scope{"application/a", two}));
  model.scaling.scope = "application/a";
  have(c, model);
  c.advance(3s);
  CHECK(replicas_on(c, 4) == 2);
  c.crash("./registry");
  c.advance(10s);
  CHECK(replicas_on(c, 4) == 2);
  auto bad = two;
  bad.options["grops"] = "whole";
  auto done = c.ask_actor<ack, registry_actor>("./registry",
                                               set_scope{"application/a", bad});
  REQUIRE(!done);
  CHECK(done.failure().code == ec::bad_request);
  auto gone = c.ask_actor<ack, registry_actor>(
    "./registry", set_scope{"application/a", std::nullopt});
  REQUIRE(!gone); // the model still uses the policy
  CHECK(gone.failure().text.find("application/a") != std::string::npos);
}

TEST_CASE("costs: the snapshot for policies contains the measurements of the"
          " profiler") {
  virtual_cluster c{2, follows_load(), ten_ms};
  profile known;
  known.model = "m";
  known.points.push_back({"emulated", 1, {}, {{"execute_seconds", 0.01}}});
  REQUIRE(
    c.ask_actor<ack, profiler_actor>("./profiler", keep_profile{pack(known)}));
  c.advance(6s);
  pin(c, "m", "whole x2");
  c.advance(6s);
  auto found = c.ask_actor<decision_records, autoscaler_actor>(
    "./autoscaler", get_decision_records{"m"});
  REQUIRE(found);
  REQUIRE(!found->records.empty());
  cluster_snapshot snapshot;
  for (auto& x : found->records)
    snapshot = *apply(&snapshot, x.snapshot);
  REQUIRE(snapshot.costs);
  CHECK(snapshot.costs->profiles.contains("m"));
  CHECK(snapshot.costs->averages.contains("m")); // average load time
}

TEST_CASE("groups: whole replicas and groups of 3 and 8 parts of one model"
          " change independently with exact counts of loads") {
  constexpr size_t workers = 17;
  auto model = follows_load();
  model.model = "deep";
  virtual_cluster c{workers, model, ten_ms};
  size_t loads = 1;
  auto change = [&](const std::string& groups, size_t more) {
    CAPTURE(groups);
    auto before = groups_on(c, workers);
    pin(c, "deep", groups);
    c.advance(5s);
    CHECK(starts_in(c) == loads + more);
    loads += more;
    return std::pair{before, groups_on(c, workers)};
  };
  // The running whole replica is one of the two.
  auto [none, first] = change("whole x2; 3 parts x1; 8 parts x1", 1 + 3 + 8);
  CHECK(first.size() == 1 + 3 + 8);
  auto others_stay = [&](const auto& was, const auto& is,
                         const std::set<std::string>& but) {
    for (auto& x : was)
      if (!but.contains(x.first))
        CHECK_MESSAGE(is.at(x.first) == x.second, x.first);
  };
  const std::set<std::string> thirds{"0-6", "6-12", "12-16"};
  const std::set<std::string> eighths{"0-2",  "2-4",   "4-6",   "6-8",
                                      "8-10", "10-12", "12-14", "14-16"};
  auto [a, b] = change("whole x2; 3 parts x2; 8 parts x1", 3);
  others_stay(a, b, thirds);
  auto [d, e] = change("whole x2; 3 parts x2", 0);
  others_stay(d, e, eighths);
  CHECK(e.size() == 1 + 3);
  auto [f, g] = change("whole x1; 3 parts x2", 0);
  others_stay(f, g, {"0-16"});
  CHECK(g.size() == 1 + 3);
  auto [h, i] = change("whole x1; 3 parts x2; cuts 4/8 x1", 3);
  others_stay(h, i, {});
  c.request(1);
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 1}});
}

TEST_CASE("placement: a proposal decided before the settings of a model changed"
          " is rejected and the policy decides again") {
  virtual_cluster c{3, one_by_one(1), ten_ms};
  auto known =
    c.ask_actor<model_list, placement_actor>("./placement", get_models{});
  REQUIRE(known);
  auto changed = known->models[0].settings;
  changed.replicas = 2;
  REQUIRE(c.ask_actor<ack, registry_actor>("./registry",
                                           set_model{changed, false, {}}));
  c.advance(2s);
  CHECK(replicas_on(c, 3) == 2);
  proposal x;
  x.scope = "model/m";
  x.epoch = 1;
  x.snapshot = 1; // taken when 1 replica ran
  auto& group = x.groups.emplace_back();
  group.id = "model/m/m/whole";
  group.model = "m";
  group.version = 1;
  group.layers = {0, 1};
  group.cut = "whole";
  group.count = 3;
  c.tell("./placement", x);
  c.advance(2s);
  CHECK(replicas_on(c, 3) == 2);
  x.snapshot = 1'000'000; // a later snapshot
  c.tell("./placement", x);
  c.advance(2s);
  CHECK(replicas_on(c, 3) == 3);
}

TEST_CASE("P13: a gateway accepts a replica only from the node that a"
          " controller assigned and tenants only from the controller") {
  auto wanted = one_by_one(1);
  wanted.tenants = {"acme"};
  virtual_cluster c{2, wanted, ten_ms};
  auto replicas =
    *c.ask_actor<model_list, placement_actor>("./placement", get_models{});
  REQUIRE(replicas.models.at(0).ready == 1);
  // The clients of the cluster belong to another tenant.
  c.request(1);
  c.advance(1s);
  CHECK(c.replies.at(1).at(0).status == ec::unknown_model);
  auto announce = [&](const std::string& name, const std::string& node) {
    replica_ready x;
    x.name = name;
    x.node = "w1";
    x.device = "emu0";
    x.info.model = "m";
    x.info.version = 1;
    x.info.signature.inputs = {{"x", dtype::u8, {-1, 16}}};
    x.limits.credit = 1;
    x.handle = c.actor(node + "/monitor");
    REQUIRE(x.handle);
    c.tell("./gateway", x);
    c.advance(1s);
  };
  announce("m.1.1", "w2");  // assigned to another node
  announce("m.1.77", "w1"); // not assigned
  announce("m.1.77", "w2");
  auto models =
    *c.ask_actor<model_list, placement_actor>("./placement", get_models{});
  CHECK(models.models.at(0).ready == 1);
  c.request(2);
  c.advance(1s);
  CHECK(c.replies.at(2).at(0).status == ec::unknown_model);
}

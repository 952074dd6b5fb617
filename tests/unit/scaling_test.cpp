// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "actors/policies/registry.hpp"
#include "actors/policies/state/configured_groups.hpp"
#include "tests/support/one_model.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

using list = std::vector<uint64_t>;

} // namespace

TEST_CASE("scaling: fixed proposes the configured number at any load") {
  one_model x{"fixed"};
  x.settings.replicas = 3;
  x.set_rate(1000);
  auto found = x.ask();
  REQUIRE(found.groups.size() == 1);
  CHECK(found.groups[0].id == "model/m/m/whole");
  CHECK(found.groups[0].count == 3);
  CHECK(found.groups[0].layers == layer_range{0, 16});
  CHECK(x.due == far_future);
}

TEST_CASE("scaling: a model in parts has a group per part and one that "
          "completes them") {
  one_model x{"fixed"};
  x.settings.parts = 2;
  x.settings.complete = true;
  auto groups = x.ask().groups;
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].layers == layer_range{0, 8});
  CHECK(groups[1].layers == layer_range{8, 16});
  CHECK(groups[1].stage == 1);
  CHECK(groups[0].cut == "8");
  CHECK(groups[2].extends == "8");
  CHECK(groups[2].layers == layer_range{0, 16});
}

TEST_CASE(
  "scaling: a cut beyond the layers of a bundle is refused with a reason") {
  one_model x{"fixed"};
  x.settings.cuts = {20};
  auto found = x.ask();
  CHECK(found.groups.empty());
  CHECK(found.refused.contains("m"));
}

TEST_CASE("FP-25: arrival_rate proposes as many replicas as serve the rate") {
  struct {
    double rate;
    const char* target;
    uint64_t replicas;
  } const table[]{{20, "0.95", 1},  {240, "0.95", 4}, {240, "0.9", 4},
                  {240, "0.5", 8},  {66, "1", 1},     {67, "1", 2},
                  {1e6, "0.95", 8}, {0, "0.95", 1}};
  for (auto& row : table) {
    CAPTURE(row.rate);
    one_model x{"arrival_rate", {{"target", row.target}, {"up_after", "0s"}}};
    x.ask();
    x.set_rate(row.rate);
    CHECK(x.ask().groups[0].count == row.replicas);
  }
}

TEST_CASE("FP-25: before the first executed request the cost book is used") {
  one_model x{"arrival_rate", {{"target", "1"}, {"up_after", "0s"}}};
  x.set_rate(100);
  x.load.service = 0;
  x.ask();
  CHECK(x.ask().groups[0].count == 1); // no cost is known
  profile known;
  known.model = "m";
  known.sources["v100"] = "w1/gpu0";
  known.points.push_back({"v100", 1, {}, {{"execute_seconds", 0.05}}});
  cost_book book{1, {}, {}};
  book.profiles["m"] =
    std::make_shared<const model_profiles>(model_profiles{{known}});
  x.snapshot.costs = std::make_shared<const cost_book>(book);
  auto found = x.ask();
  CHECK(found.groups[0].count == 5);
  CHECK(found.reasons["m"].find("profile of w1/gpu0") != std::string::npos);
}

TEST_CASE("FP-26: between both thresholds a model keeps its replicas") {
  one_model x{"arrival_rate",
              {{"target", "1"},
               {"up_after", "0s"},
               {"cooldown", "0s"},
               {"lack", "0.5"},
               {"spare", "1"}}};
  x.set_rate(4 / 0.015);
  x.ask();
  x.now += 1s;
  CHECK(x.ask().groups[0].count == 4);
  struct {
    double busy;
    uint64_t then;
  } const table[]{{4.4, 4}, {4.6, 5}, {4.1, 5}, {3.9, 4}, {3.1, 4}, {2.9, 3}};
  for (auto& row : table) {
    CAPTURE(row.busy);
    x.set_rate(row.busy / 0.015);
    x.now += 1s;
    CHECK(x.ask().groups[0].count == row.then);
  }
}

TEST_CASE("FP-25: queue_latency scales up in proportion to the wait and down "
          "only if replicas are idle") {
  struct {
    double wait, rate;
    uint64_t there, then;
  } const table[]{{14, 100, 2, 4},  // twice the target needs twice the replicas
                  {7.1, 100, 2, 3}, // rounded up
                  {7, 100, 2, 2},   {0, 240, 4, 4}, // 3.6 are busy
                  {0, 20, 4, 2}, // 0.3 are busy, and one is spare
                  {0, 0, 4, 1},     {70, 100, 1, 8}};
  for (auto& row : table) {
    CAPTURE(row.wait);
    CAPTURE(row.rate);
    one_model x{"queue_latency", {{"up_after", "0s"}, {"cooldown", "0s"}}};
    x.load.groups.push_back({{}, {0, 16}, 1, row.there, 0});
    x.set_rate(row.rate);
    x.load.wait = row.wait;
    CHECK(x.ask().groups[0].count == row.then);
  }
}

TEST_CASE("scaling: a scale-up waits for up_after and then takes the number "
          "wanted at that time") {
  one_model x{"arrival_rate", {{"target", "0.95"}, {"up_after", "2s"}}};
  x.set_rate(20);
  CHECK(x.counts(2) == list{1, 1});
  x.set_rate(100);
  CHECK(x.counts(1) == list{1});
  x.set_rate(240);
  CHECK(x.counts(3) == list{1, 4, 4});
}

TEST_CASE("FP-30: without down_after replicas end with the load of the window "
          "and with it later") {
  for (auto* after : {"0s", "3s"}) {
    one_model x{
      "arrival_rate",
      {{"target", "0.95"}, {"up_after", "0s"}, {"down_after", after}}};
    x.set_rate(240);
    x.ask();
    CHECK(x.counts(8).back() == 4);
    x.set_rate(20);
    CHECK(x.counts(5)
          == (after == std::string{"0s"} ? list{1, 1, 1, 1, 1}
                                         : list{4, 4, 4, 1, 1}));
  }
}

TEST_CASE("scaling: the direction changes once per cooldown at most") {
  one_model x{"arrival_rate",
              {{"target", "0.95"}, {"up_after", "0s"}, {"cooldown", "5s"}}};
  int turns = 0;
  uint64_t before = 1, direction = 0;
  std::vector<int> at;
  for (int i = 0; i < 60; ++i) {
    x.set_rate(i % 2 == 0 ? 240 : 20);
    auto n = x.counts(1)[0];
    if (n != before) {
      auto now = n > before ? 1u : 2u;
      if (direction != 0 && now != direction) {
        ++turns;
        at.push_back(i);
      }
      direction = now;
      before = n;
    }
  }
  CHECK(turns > 2);
  for (size_t i = 1; i < at.size(); ++i)
    CHECK(at[i] - at[i - 1] >= 5);
}

TEST_CASE("scaling: without reports of gateways for a whole window no replica "
          "is removed") {
  one_model x{"arrival_rate", {{"window", "10s"}}};
  x.load.groups.push_back({{}, {0, 16}, 1, 4, 0});
  x.snapshot.covered = 9s;
  CHECK(x.counts(3) == list{4, 4, 4});
  x.snapshot.covered = 10s;
  CHECK(x.counts(2) == list{1, 1});
}

TEST_CASE("FP-27: max limits the replicas and the reason names it") {
  one_model x{"arrival_rate", {{"up_after", "0s"}}};
  x.settings.scaling.max = 2;
  x.ask();
  x.set_rate(240);
  auto found = x.ask();
  CHECK(found.groups[0].count == 2);
  CHECK(found.reasons["m"].ends_with("max is 2"));
}

TEST_CASE("scaling: options are read by name and an error names the option and "
          "the known ones") {
  struct {
    std::string policy;
    option_texts options;
    std::string text;
  } const table[]{
    {"arival_rate",
     {},
     "policy: expected one of fixed, given, arrival_rate, queue_latency,"
     " invocations, utilisation, paldia, quart, usher, wao-usher, infaas,"
     " found 'arival_rate'"},
    {"arrival_rate",
     {{"target", "0"}},
     "options: target: expected between 0.01 and 1, found '0'"},
    {"arrival_rate",
     {{"target", "nan"}},
     "options: target: expected between 0.01 and 1, found 'nan'"},
    {"arrival_rate",
     {{"cooldown", "soon"}},
     "options: cooldown: 'soon' has no number (expected a duration like 20ms)"},
    {"fixed",
     {{"target", "1"}},
     "options: unknown option 'target'; known here:"
     " cuts"},
  };
  for (auto& row : table) {
    scope_settings x;
    x.policy = row.policy;
    x.options = row.options;
    auto made = make_scaling_policy("model/m", x);
    REQUIRE_FALSE(made);
    if (row.policy == "arrival_rate" && row.options.contains("cooldown"))
      CHECK(made.failure().text.starts_with("options: cooldown: "));
    else
      CHECK(made.failure().text == row.text);
  }
}

TEST_CASE(
  "scaling: settings that contradict each other are refused by their key") {
  auto troubles = [](auto change) {
    model_settings x;
    x.model = "m";
    std::map<std::string, scope_settings> scopes;
    change(x, scopes);
    auto found = check_scaling({x}, scopes);
    return found.empty() ? std::string{} : found[0].key + " " + found[0].why;
  };
  CHECK(troubles([](auto&, auto&) {}).empty());
  CHECK(troubles([](auto& x, auto&) { x.scaling.min = 11; })
        == "models[0].scaling.min is 11, more than max, which is 10");
  CHECK(troubles([](auto& x, auto&) { x.scaling.scope = "cluster"; })
        == "models[0].scaling.scope is not configured (expected"
           " scopes.cluster)");
  CHECK(troubles([](auto& x, auto&) {
          x.scaling.scope = "model/n";
        }).starts_with("models[0].scaling.scope is the scope of another"));
  CHECK(troubles([](auto& x, auto& scopes) {
          x.scaling.scope = "cluster";
          x.scaling.policy = "fixed";
          scopes["cluster"].policy = "fixed";
        }).starts_with("models[0].scaling.policy stands beside scope cluster"));
  CHECK(troubles([](auto& x, auto& scopes) {
          x.scaling.policy = "fixed";
          scopes["model/m"].policy = "arrival_rate";
        }).starts_with("models[0].scaling.policy stands beside"));
  CHECK(troubles([](auto& x, auto&) {
          x.scaling.policy = "arrival_rate";
          x.replicas_of_parts = {1, 2};
        }).starts_with("models[0].replicas_of_parts does nothing"));
  CHECK(troubles([](auto&, auto& scopes) {
          scopes["everything"];
        }).starts_with("scopes.everything expected model/NAME"));
}

namespace {

/// A random cluster of one scope with some models.
cluster_snapshot draw_snapshot(random_stream& chance, const std::string& policy,
                               const option_texts& options) {
  cluster_snapshot out;
  out.number = 1;
  out.covered = seconds{static_cast<int64_t>(chance.below(100))};
  out.counted = out.at = 100s;
  scope_state scope;
  scope.settings.policy = policy;
  scope.settings.options = options;
  cost_book costs;
  node_state node;
  node.devices = {{"cpu0", "cpu", 8, {}, {}, false, chance.below(9)},
                  {"gpu:0", "gpu", 2, {}, {}, false, chance.below(5)}};
  auto models = chance.below(5);
  for (uint64_t i = 0; i < models; ++i) {
    model_state x;
    auto name = x.settings.model = "m" + std::to_string(i);
    x.settings.scaling.min = chance.below(3);
    x.settings.scaling.max = x.settings.scaling.min + 1 + chance.below(5);
    x.settings.replicas = chance.below(4);
    x.settings.parts = 1 + chance.below(3);
    x.settings.complete = chance.below(2) == 0;
    x.scope = "cluster";
    x.version = chance.below(5) == 0 ? 0 : 1;
    if (x.version != 0)
      x.bundle.layer_bytes.assign(12, 100);
    x.elastic = policy != "fixed" && x.settings.replicas > 0;
    if (policy == "infaas") {
      x.settings.parts = 1;
      x.settings.device = chance.below(2) == 0 ? "cpu" : "gpu";
      x.settings.units = chance.below(3);
      profile p;
      p.points.push_back({x.settings.device,
                          1,
                          {},
                          {{"execute_seconds", 0.01 + chance.uniform()},
                           {"load_seconds", 10 * chance.uniform()}}});
      if (chance.below(4) != 0)
        costs.profiles[name] =
          std::make_shared<const model_profiles>(model_profiles{{p}});
    }
    model_load load;
    load.rate = 100 * chance.uniform();
    load.seconds.assign(chance.below(61), load.rate);
    load.service = chance.below(3) == 0 ? 0 : 0.1 * chance.uniform();
    load.wait = 20 * chance.uniform();
    load.waiting = chance.below(10);
    load.pressure = chance.below(8) == 0;
    load.last_arrival = seconds{static_cast<int64_t>(chance.below(100))};
    if (chance.below(2) == 0)
      load.groups.push_back({{}, {0, 12}, 1, chance.below(4), chance.below(2)});
    out.models[name] = std::make_shared<const model_state>(std::move(x));
    out.loads[name] = std::make_shared<const model_load>(std::move(load));
    scope.models.push_back(name);
  }
  if (policy == "infaas") {
    out.costs = std::make_shared<const cost_book>(std::move(costs));
    out.nodes["w"] = std::make_shared<const node_state>(std::move(node));
  }
  out.scopes["cluster"] = std::make_shared<const scope_state>(std::move(scope));
  return out;
}

} // namespace

TEST_CASE("scaling: every registered policy keeps the contract of policies") {
  const std::map<std::string, option_texts> options{
    {"given", {{"groups", "whole x2; 3 parts x1"}}},
    {"infaas", {{"prices", "cpu 1; gpu 5"}}},
    {"paldia", {{"prices", "cpu 1; gpu 5"}}}};
  for (auto& entry : scaling_policies()) {
    CAPTURE(entry.name);
    auto i = options.find(entry.name);
    auto texts = i == options.end() ? option_texts{} : i->second;
    auto made = entry.make(texts, std::string{"cluster"});
    REQUIRE(made);
    auto& policy = **made;
    for (uint64_t seed = 1; seed <= 300; ++seed) {
      CAPTURE(seed);
      random_stream chance{seed};
      auto in = draw_snapshot(chance, entry.name, texts);
      policy_memory first, second;
      timestamp now{1h};
      auto r1 = random_stream{seed}, r2 = random_stream{seed};
      auto x = policy.propose(in, first, r1, now);
      // The same input gives the same output.
      CHECK(policy.propose(in, second, r2, now) == x);
      CHECK(first == second);
      CHECK(policy.next_due(first, now) > now);
      std::set<std::string> ids;
      for (auto& g : x.groups) {
        CHECK(ids.insert(g.id).second);
        CHECK(g.id.starts_with("cluster/" + g.model + "/"));
        REQUIRE(in.models.contains(g.model));
        auto& limits = in.models.at(g.model)->settings.scaling;
        if (!in.models.at(g.model)->elastic)
          CHECK(g.count
                == in.models.at(g.model)->settings.replicas
                     * (entry.name == "fixed"));
        else if (entry.name != "given")
          CHECK((g.count >= limits.min && g.count <= limits.max));
      }
      // A settled proposal stays the same without changes.
      for (int k = 0; k < 40; ++k)
        x = policy.propose(in, first, r1, now += 1s);
      auto settled = policy.propose(in, first, r1, now += 1s);
      if (entry.name != "queue_latency") // grows while requests wait
        CHECK(settled.groups == x.groups);
      for (auto& g : settled.groups)
        CHECK(ids.contains(g.id));
    }
    cluster_snapshot empty;
    empty.scopes["cluster"] = std::make_shared<const scope_state>();
    policy_memory memory;
    random_stream random{1};
    CHECK(policy.propose(empty, memory, random, {}).groups.empty());
  }
}

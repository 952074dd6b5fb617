// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "actors/policies/registry.hpp"
#include "actors/policies/scale/variant_plan.hpp"

using namespace millrace;

namespace {

/// Table 2 with the loading times of the golden rows. These times are assumed,
/// because the paper gives none for these variants.
std::vector<variant_facts> table_2(std::vector<uint64_t> counts = {0, 0, 0}) {
  constexpr uint64_t room = 1000;
  return {{1, 1, 5, 0.2, counts[0], room},
          {3, 5, 100, 0.02, counts[1], room},
          {16, 10, 800, 0.015, counts[2], room}};
}

using changes = std::vector<int64_t>;

/// An application with the variants of Table 2, and a policy that runs once a
/// second.
struct application {
  explicit application(option_texts more = {}) {
    settings.policy = "infaas";
    settings.options = std::move(more);
    settings.options.emplace("prices", "cpu 0.25; inferentia 3; v100 16");
    snapshot.covered = 1h;
    add("a", "cpu", 4, 1, 0.2, 1);
    add("b", "inferentia", 1, 2, 0.02, 5);
    add("c", "v100", 1, 12, 0.015, 10);
    book.version = 1;
    snapshot.costs = std::make_shared<const cost_book>(book);
  }

  void add(const std::string& name, const std::string& kind, uint64_t units,
           uint64_t at_once, double time, double loading) {
    model_settings x;
    x.model = name;
    x.device = kind;
    x.units = units;
    x.concurrency = at_once;
    x.policy.batch = 1;
    x.slo = 300ms;
    x.scaling.scope = "application/x";
    x.scaling.min = 0;
    model_info bundle;
    bundle.model = name;
    bundle.application = "x";
    bundle.accuracy = 0.749;
    bundle.layer_bytes = {1};
    models[name] = {x, "application/x", 1, bundle, true};
    profile p;
    p.model = name;
    p.points.push_back(
      {kind, 1, {}, {{"execute_seconds", time}, {"load_seconds", loading}}});
    book.profiles[name] =
      std::make_shared<const model_profiles>(model_profiles{{p}});
  }

  /// A node that runs the groups of the last proposal.
  node_state node() const {
    node_state out;
    out.devices = {{"cpu0", "cpu", 8, {}, {}, false, 8},
                   {"chip", "inferentia", 8, {}, {}, false, 4},
                   {"gpu:0", "v100", 12, {}, {}, false, 1}};
    for (auto& g : last.groups)
      for (uint64_t i = 0; i < g.count; ++i) {
        auto& x = out.replicas.emplace_back();
        x.what.units = g.units;
        for (auto& device : out.devices)
          if (device.kind == g.device)
            x.what.device = device.id;
      }
    return out;
  }

  /// Runs the policy. Returns the counts of a, b and c.
  std::vector<uint64_t> ask() {
    if (!is_empty)
      snapshot.nodes["w"] = std::make_shared<const node_state>(node());
    scope_state scope{settings, {}};
    for (auto& [name, x] : models) {
      scope.models.push_back(name);
      snapshot.models[name] = std::make_shared<const model_state>(x);
      auto load = loads[name];
      if (served == name)
        load.seconds.assign(60, rate);
      for (auto& g : last.groups)
        if (g.model == name) {
          group_state there;
          there.group.id = g.id;
          there.ready = g.count; // loading takes less than a second
          load.groups.push_back(there);
        }
      snapshot.loads[name] = std::make_shared<const model_load>(load);
    }
    snapshot.scopes["application/x"] =
      std::make_shared<const scope_state>(scope);
    auto made = make_scaling_policy("application/x", settings);
    REQUIRE(made);
    last = (*made)->propose(snapshot, memory, random, now);
    now += 1s;
    std::vector<uint64_t> out;
    for (auto& g : last.groups)
      out.push_back(g.count);
    return out;
  }

  /// The counts after a number of seconds.
  std::vector<uint64_t> after(int seconds) {
    for (int i = 1; i < seconds; ++i)
      ask();
    return ask();
  }

  scope_settings settings;
  std::map<std::string, model_state> models;
  std::map<std::string, model_load> loads;
  cost_book book;
  cluster_snapshot snapshot;
  policy_memory memory;
  random_stream random{1};
  timestamp now{1h};
  proposal last;
  std::string served = "a"; ///< the variant to which all arrivals count
  double rate = 0;
  bool is_empty = false; ///< the cluster has no node
};

using counts = std::vector<uint64_t>;

} // namespace

TEST_CASE("IN-49: the exact plan is the cheapest of Table 3 and the greedy "
          "plan the cheapest of one variant") {
  struct {
    double rate, slo;
    changes exact;
    double cost;
    changes greedy;
    double greedy_cost;
  } const table[]{{10, 0.3, {2, 0, 0}, 2, {2, 0, 0}, 2},
                  {10, 0.05, {0, 1, 0}, 3, {0, 1, 0}, 3},
                  {1000, 0.3, {0, 2, 1}, 22, {0, 10, 0}, 30}};
  for (auto& row : table) {
    CAPTURE(row.rate);
    CAPTURE(row.slo);
    auto exact = cheapest_plan(table_2(), {row.rate, row.slo, 0});
    REQUIRE(exact);
    CHECK(exact->change == row.exact);
    CHECK(exact->cost == doctest::Approx(row.cost));
    CHECK(exact->proven);
    auto greedy = cheapest_addition(table_2(), {row.rate, row.slo, 0}, true);
    REQUIRE(greedy);
    CHECK(greedy->change == row.greedy);
    CHECK(greedy->cost == doctest::Approx(row.greedy_cost));
  }
}

TEST_CASE("IN-48: the exact plan solves the integer program with additions "
          "weighted by loading times") {
  struct {
    std::vector<uint64_t> running;
    double rate, slo, lambda;
    changes change;
    double cost;
  } const table[]{{{2, 0, 0}, 1000, 0.3, 0, {-2, 2, 1}, 20},
                  {{2, 0, 0}, 1000, 0.3, 0.1, {-2, 2, 1}, 39},
                  {{2, 0, 0}, 1000, 0.3, 0.5, {-2, 10, 0}, 103},
                  {{2, 0, 0}, 20, 0.3, 0, {-2, 1, 0}, 1},
                  {{2, 0, 0}, 20, 0.3, 0.1, {2, 0, 0}, 2.2},
                  {{0, 2, 1}, 10, 0.3, 0, {2, -2, -1}, -20},
                  {{0, 1, 0}, 5, 0.3, 1.9, {1, -1, 0}, -0.1},
                  {{0, 1, 0}, 5, 0.3, 2.1, {0, 0, 0}, 0},
                  {{2, 0, 0}, 9, 0.05, 0, {0, 0, 0}, 0}};
  for (auto& row : table) {
    CAPTURE(row.rate);
    CAPTURE(row.lambda);
    auto found =
      cheapest_plan(table_2(row.running), {row.rate, row.slo, row.lambda});
    REQUIRE(found);
    CHECK(found->change == row.change);
    CHECK(found->cost == doctest::Approx(row.cost));
    CHECK(found->proven);
  }
}

TEST_CASE("IN-48: no plan exceeds the room of the cluster") {
  auto all = table_2();
  for (auto& x : all)
    x.room = 1;
  CHECK(cheapest_plan(all, {900, 0.3, 0})->change == changes{0, 1, 1});
  CHECK_FALSE(cheapest_plan(all, {906, 0.3, 0}));
  // the limit of search nodes
  CHECK_FALSE(cheapest_plan(all, {900, 0.3, 0}, 1));
}

TEST_CASE("IN-42: replicas and upgrades have one cost and a large weight of "
          "loading times favours the variant that loads fast") {
  struct {
    double rate, lambda;
    changes change;
    double cost;
  } const table[]{{1000, 0, {0, 10, 0}, 30}, // 198 of A, or 2 of C
                  {20, 0, {2, 0, 0}, 2},     // or 1 of B
                  {30, 0, {0, 1, 0}, 3},     // or 4 of A
                  {30, 1, {4, 0, 0}, 8}};    // or 1 of B at 18
  for (auto& row : table) {
    CAPTURE(row.rate);
    CAPTURE(row.lambda);
    auto found =
      cheapest_addition(table_2({2, 0, 0}), {row.rate, 0.3, row.lambda}, true);
    REQUIRE(found);
    CHECK(found->change == row.change);
    CHECK(found->cost == doctest::Approx(row.cost));
  }
}

TEST_CASE("IN-43: an upgrade meets the SLO and has a higher throughput than "
          "the running variant") {
  auto all = table_2({0, 1, 0});
  // A is cheaper for 5 more requests a second, but slower.
  CHECK(cheapest_addition(all, {105, 0.3, 0}, true)->change
        == changes{0, 1, 0});
  all[1].room = 0;
  CHECK(cheapest_addition(all, {105, 0.3, 0}, true)->change
        == changes{0, 0, 1});
  CHECK_FALSE(cheapest_addition(all, {105, 0.3, 0}, false));
  CHECK_FALSE(cheapest_addition(all, {105, 0.01, 0}, false));
  // The SLO is ignored if no variant meets it.
  CHECK(cheapest_addition(all, {105, 0.01, 0}, true)->change
        == changes{0, 0, 1});
  // this rate is served already
  CHECK_FALSE(cheapest_addition(all, {100, 0.3, 0}, true));
}

TEST_CASE("IN-69: a variant without room is never added and one with too "
          "little room serves a part of the load") {
  auto all = table_2();
  all[1].room = 0;
  all[2].room = 0;
  all[0].room = 3;
  auto found = cheapest_addition(all, {100, 0.3, 0}, true);
  REQUIRE(found);
  CHECK(found->change == changes{3, 0, 0});
  all[1].room = 1;
  CHECK(cheapest_addition(all, {100, 0.3, 0}, true)->change
        == changes{0, 1, 0});
}

TEST_CASE("IN-45: an instance or a more expensive variant ends only if the "
          "others serve the rate") {
  auto saved = [](const std::vector<uint64_t>& running, double rate) {
    std::vector<double> out;
    for (auto& x : cheaper_plans(table_2(running), {rate, 0.3, 0}, true))
      out.push_back(x.saved);
    return out;
  };
  CHECK(saved({2, 0, 0}, 5) == std::vector<double>{1});
  CHECK(saved({2, 0, 0}, 5.1).empty());
  CHECK(saved({1, 0, 0}, 0).empty());                    // the last instance
  CHECK(saved({0, 1, 0}, 5) == std::vector<double>{2});  // 1 of A
  CHECK(saved({0, 1, 0}, 10) == std::vector<double>{1}); // 2 of A
  CHECK(saved({0, 1, 0}, 15).empty()); // 3 of A are no cheaper
  CHECK(saved({1, 1, 0}, 101).empty());
  CHECK(saved({1, 1, 0}, 100) == std::vector<double>{1});
  auto both = cheaper_plans(table_2({1, 1, 0}), {4, 0.3, 0}, true);
  REQUIRE(both.size() == 2);
  CHECK(both[0].from == 1); // the more expensive variant first
  CHECK(cheaper_plans(table_2({0, 1, 0}), {5, 0.3, 0}, false).empty());
  // A downgrade meets the SLO.
  CHECK(cheaper_plans(table_2({0, 1, 0}), {5, 0.05, 0}, true).empty());
}

TEST_CASE("IN-19, IN-20, IN-21: the state of a variant follows from ready "
          "replicas and load and latency") {
  using enum variant_state;
  struct {
    variant_usage usage;
    variant_state state;
  } const table[]{
    {{0, 0, 5, 0, 0.2}, inactive},       {{0, 9, 5, 0.9, 0.2}, inactive},
    {{1, 0, 5, 0, 0.2}, active},         {{1, 4.4, 5, 0.2, 0.2}, active},
    {{1, 4.5, 5, 0.2, 0.2}, overloaded}, {{2, 4.5, 5, 0.2, 0.2}, active},
    {{1, 4.5, 5, 0.9, 0.2}, overloaded}, // overloaded precedes interfered
    {{1, 1, 5, 0.31, 0.2}, interfered},  {{1, 1, 5, 0.3, 0.2}, active},
    {{1, 1, 5, 0.9, 0}, active}}; // without a profile
  for (auto& row : table) {
    CAPTURE(row.usage.ready);
    CAPTURE(row.usage.served);
    CAPTURE(row.usage.latency);
    CHECK(state_of(row.usage, 0.9, 1.5) == row.state);
  }
}

TEST_CASE("IN-40: an application gets instances once its load exceeds capacity "
          "over slack") {
  application x;
  CHECK(x.ask() == counts{0, 0, 0}); // no load
  x.rate = 4;
  CHECK(x.ask() == counts{1, 0, 0});
  x.rate = 4.76;
  CHECK(x.ask() == counts{1, 0, 0});
  x.rate = 4.77;
  CHECK(x.ask() == counts{2, 0, 0});
  x.rate = 80; // A has 8 units, so no room is left
  CHECK(x.ask() == counts{2, 1, 0});
  CHECK(x.last.reasons.at("b").find("adds 1 of b at cost 4.5")
        != std::string::npos);
  application wide{{{"slack", "1.3"}}};
  wide.rate = 4;
  CHECK(wide.ask() == counts{2, 0, 0});
}

TEST_CASE("IN-46: a variant ends after a cheaper plan sufficed for its loading "
          "time and its successors are ready") {
  application x;
  x.rate = 80;
  CHECK(x.ask() == counts{0, 1, 0});
  x.rate = 4;
  CHECK(x.after(5) == counts{0, 1, 0});
  CHECK(x.ask() == counts{1, 1, 0}); // after 5 s A is started
  CHECK(x.ask() == counts{1, 0, 0}); // A is ready
  CHECK(x.after(20) == counts{1, 0, 0});
}

TEST_CASE("IN-46: a load that needs the variant again restarts the wait") {
  application x;
  x.rate = 80;
  x.ask();
  x.rate = 4;
  CHECK(x.after(5) == counts{0, 1, 0});
  x.rate = 80;
  CHECK(x.ask() == counts{0, 1, 0});
  x.rate = 4;
  CHECK(x.after(5) == counts{0, 1, 0});
  CHECK(x.ask() == counts{1, 1, 0});
}

TEST_CASE("IN-69: without a device no variant is started") {
  application x;
  x.is_empty = true;
  x.rate = 80;
  CHECK(x.after(3) == counts{0, 0, 0});
}

TEST_CASE("IN-65: without switches only replicas of the running variant are "
          "added up to its room") {
  application x{{{"switches", "false"}}};
  x.rate = 4;
  CHECK(x.ask() == counts{1, 0, 0});
  x.rate = 80;
  CHECK(x.ask() == counts{2, 0, 0});
}

TEST_CASE("IN-20: an interfered variant counts with its observed time") {
  application x;
  x.rate = 4;
  CHECK(x.ask() == counts{1, 0, 0});
  x.loads["a"].stages = {{{0, 0}, 1, 0, 0.4, 0, 0, 4}}; // at most 2.5 a second
  CHECK(x.ask() == counts{2, 0, 0});
  CHECK(x.last.reasons.at("a").find("a interfered") != std::string::npos);
}

TEST_CASE("IN-26: a variant for which requests wait gets an instance") {
  application x;
  x.rate = 4;
  x.loads["c"].pressure = true;
  CHECK(x.ask() == counts{1, 0, 0});
  CHECK(x.ask() == counts{1, 0, 1});
}

TEST_CASE("infaas: device kinds without a price and models in parts are "
          "refused and the other variants are planned") {
  application x{{{"prices", "cpu 0.25; v100 16"}}};
  x.models["c"].settings.parts = 2;
  x.models["c"].bundle.layer_bytes = {1, 1};
  x.rate = 4;
  CHECK(x.ask() == counts{1});
  CHECK(x.last.refused.at("b").find("'inferentia'") != std::string::npos);
  CHECK(x.last.refused.at("c").starts_with("parts: "));
  for (auto* text : {"cpu", "cpu 0", "cpu x", "cpu 1 2", ""}) {
    CAPTURE(text);
    x.settings.options["prices"] = text;
    CHECK_FALSE(make_scaling_policy("application/x", x.settings));
  }
}

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "actors/policies/state/costs.hpp"
#include "actors/policies/state/deltas.hpp"
#include "actors/policies/state/snapshot_builder.hpp"
#include "runtime/random.hpp"
#include "tests/support/cluster_views.hpp"
#include "transport/codec.hpp"
#include "transport/messages/cluster.hpp"

using namespace millrace;

namespace {

constexpr size_t models = 4;

std::string model_name(uint64_t i) {
  return "m" + std::to_string(i);
}

registered draw_intent(random_stream& chance) {
  registered out;
  for (size_t i = 0; i < models; ++i) {
    if (chance.below(4) == 0)
      continue;
    model_settings x;
    x.model = model_name(i);
    x.replicas = chance.below(3);
    if (chance.below(2) == 0)
      x.scaling.policy = "arrival_rate";
    if (chance.below(5) == 0)
      out.pins[x.model] = "whole x2";
    out.models.push_back(x);
  }
  return out;
}

node_state draw_node(random_stream& chance, const std::string& name) {
  node_state out;
  out.node.name = name;
  out.devices.push_back({"cpu0", "cpu", 1, {}});
  out.draining = chance.below(8) == 0;
  for (auto* some : {&out.models, &out.kept})
    for (size_t i = 0; i < models; ++i)
      if (chance.below(2) == 0) {
        auto& info = some->emplace_back();
        info.model = model_name(i);
        info.version = 1 + chance.below(2);
        info.layer_bytes = {10, 20};
      }
  for (uint64_t i = chance.below(4); i > 0; --i) {
    auto& r = out.replicas.emplace_back();
    r.what.model = model_name(chance.below(models));
    r.what.version = 1 + chance.below(2);
    r.what.replica = r.what.model + "." + std::to_string(i);
    r.what.group.id = "g" + std::to_string(chance.below(2));
    r.state = static_cast<replica_condition>(chance.below(4));
  }
  return out;
}

/// Checks that both snapshots have the same content; they may share any parts.
void check_equal(const cluster_snapshot& x, const cluster_snapshot& y) {
  auto delta = difference(&x, y);
  CHECK(delta.nodes.empty());
  CHECK(delta.models.empty());
  CHECK(delta.loads.empty());
  CHECK(delta.scopes.empty());
  CHECK(delta.profiles.empty());
  CHECK(delta.averages.empty());
}

snapshot_delta over_the_wire(const snapshot_delta& x) {
  encoder out{timestamp{}, nullptr};
  out.put(x);
  auto body = out.take_body();
  decode_context ctx;
  auto back = decode<snapshot_delta>(body.view(), ctx);
  REQUIRE(back);
  return *back;
}

profile profile_of(const std::string& model) {
  profile out;
  out.model = model;
  out.sources["v100"] = "w1/gpu0";
  for (auto rows : {1.0, 4.0})
    out.points.push_back(
      {"v100",
       rows,
       {},
       {{"execute_seconds", 0.01 * rows}, {"load_seconds", 2}}});
  return out;
}

std::shared_ptr<const cost_book> book_of(uint64_t version, profile p,
                                         std::vector<live_cost> live) {
  cost_book out;
  out.version = version;
  auto model = p.model;
  out.profiles[model] =
    std::make_shared<const model_profiles>(model_profiles{{std::move(p)}});
  if (!live.empty())
    out.averages[model] =
      std::make_shared<const model_averages>(model_averages{std::move(live)});
  return std::make_shared<const cost_book>(std::move(out));
}

} // namespace

TEST_CASE("snapshot: after any changes it equals that of a new builder and "
          "deltas lead from each to the next") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    random_stream chance{seed};
    snapshot_builder builder{1, 250ms, {}};
    registered intent = draw_intent(chance);
    builder.set_intent(intent);
    std::map<std::string, std::shared_ptr<const node_state>> nodes;
    auto last = builder.take({});
    auto received = *apply(nullptr, over_the_wire(difference(nullptr, *last)));
    for (int step = 0; step < 30; ++step) {
      if (chance.below(6) == 0)
        builder.set_intent(intent = draw_intent(chance));
      auto name = "w" + std::to_string(chance.below(4));
      auto is = chance.below(4) == 0
                  ? nullptr
                  : std::make_shared<const node_state>(draw_node(chance, name));
      builder.set_nodes({{name, is}}, {});
      if (is)
        nodes[name] = is;
      else
        nodes.erase(name);
      if (chance.below(3) == 0)
        builder.set_costs(
          book_of(static_cast<uint64_t>(step + 1), profile_of("m0"), {}));
      auto now = builder.take({});
      snapshot_builder anew{1, 250ms, {}};
      anew.set_intent(intent);
      anew.set_nodes(nodes, {});
      anew.set_costs(now->costs);
      check_equal(*anew.take({}), *now);
      auto next = apply(&received, over_the_wire(difference(last.get(), *now)));
      REQUIRE(next);
      check_equal(*next, *now);
      CHECK(next->number == now->number);
      received = std::move(*next);
      last = now;
    }
  }
}

TEST_CASE("snapshot: unchanged parts are shared") {
  snapshot_builder builder{1, 250ms, {}};
  random_stream chance{1};
  builder.set_intent(draw_intent(chance));
  auto node = std::make_shared<const node_state>(draw_node(chance, "w1"));
  builder.set_nodes({{"w1", node}}, {});
  auto first = builder.take({});
  builder.set_nodes(
    {{"w2", std::make_shared<const node_state>(draw_node(chance, "w2"))}}, {});
  auto second = builder.take({});
  CHECK(first->nodes.at("w1") == second->nodes.at("w1"));
  CHECK(difference(first.get(), *second).nodes.size() == 1);
}

TEST_CASE("snapshot: a delta of another snapshot is refused") {
  cluster_snapshot x;
  x.number = 3;
  snapshot_delta delta;
  delta.base = 2;
  delta.number = 4;
  auto found = apply(&x, delta);
  REQUIRE(!found);
  CHECK(found.failure().text
        == "a delta of snapshot 2 (expected one of snapshot 3)");
}

TEST_CASE("costs: a profile gives the curve and averages scale it and the "
          "value names its origin") {
  model_info info;
  info.model = "m";
  info.version = 1;
  info.layer_bytes = {10, 20};
  cost_query x{&info, {0, 2}, "v100"};
  CHECK(!execution_seconds(nullptr, x, 1));
  auto alone = book_of(1, profile_of("m"), {});
  auto found = execution_seconds(alone.get(), x, 4);
  REQUIRE(found);
  CHECK(found->value == doctest::Approx(0.04));
  CHECK(found->origin == "profile of w1/gpu0");
  live_cost live;
  live.model = "m";
  live.version = 1;
  live.layers = {0, 2};
  live.device = "v100";
  live.execute = 0.03; // for batches of 2: 50 % longer than in the profile
  live.batch = 2;
  live.executions = 5;
  live.starts["disk"] = {0.5, 1.5, 0.25, 3};
  auto both = book_of(2, profile_of("m"), {live});
  found = execution_seconds(both.get(), x, 4);
  REQUIRE(found);
  CHECK(found->value == doctest::Approx(0.06));
  CHECK(found->origin == "profile of w1/gpu0, corrected");
  auto start = start_seconds(both.get(), x, "disk");
  REQUIRE(start);
  CHECK(start->fetch == 0.5);
  CHECK(start->load == 1.5);
  CHECK(start->origin == "live");
  start = start_seconds(both.get(), x, "stores"); // no such start was measured
  REQUIRE(start);
  CHECK(start->load == 2);
  CHECK(start->origin == "profile of w1/gpu0");
  x.device = "cpu";
  CHECK(!execution_seconds(both.get(), x, 1));
}

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "actors/placement/parts.hpp"
#include "actors/placement/reconcile.hpp"

using namespace millrace;

namespace {

/// A cluster of workers with one cpu each, all holding versions of model m.
cluster_view workers(size_t n, std::vector<uint64_t> versions = {1}) {
  cluster_view out;
  for (size_t i = 1; i <= n; ++i) {
    inventory x;
    x.node.name = "w" + std::to_string(i);
    x.devices.push_back({"cpu0", "cpu", 1, {}});
    for (auto v : versions)
      x.models.push_back({"m",
                          v,
                          "",
                          {},
                          100,
                          {100},
                          {},
                          v == versions.front()
                            ? std::vector<std::string>{"default"}
                            : std::vector<std::string>{},
                          {},
                          {},
                          {}});
    out.nodes[x.node.name] = x;
  }
  return out;
}

model_settings want(uint64_t replicas, const std::string& version = "") {
  model_settings out;
  out.model = "m";
  out.version = version;
  out.replicas = replicas;
  return out;
}

/// Carries a plan out: what is deployed is ready, what is evicted is gone.
placement_plan settle(cluster_view& view,
                      const std::vector<model_settings>& wanted) {
  auto plan = reconcile(view, wanted);
  for (auto& x : plan.deploy)
    view.nodes[x.node].replicas.push_back(
      {x, replica_condition::ready, {}, 100, {}, {}, {}});
  for (auto& x : plan.evict)
    std::erase_if(view.nodes[x.node].replicas,
                  [&](auto& r) { return r.what.replica == x.replica; });
  return plan;
}

} // namespace

TEST_CASE("placement: missing replicas go to the emptiest devices") {
  auto view = workers(3);
  auto plan = settle(view, {want(3)});
  REQUIRE(plan.deploy.size() == 3);
  CHECK(plan.deploy[0].replica == "m.1.1");
  CHECK(plan.deploy[0].node == "w1");
  CHECK(plan.deploy[2].node == "w3");
  CHECK(settle(view, {want(3)}).deploy.empty());
}

TEST_CASE("placement: surplus replicas go, from where there are most, newest"
          " first") {
  auto view = workers(2);
  settle(view, {want(3)});
  auto plan = settle(view, {want(1)});
  REQUIRE(plan.evict.size() == 2);
  CHECK(plan.evict[0].replica == "m.1.3");
  CHECK(plan.evict[1].replica == "m.1.2");
}

TEST_CASE("placement: replicas that would fall together are spread when a node"
          " comes") {
  auto view = workers(1);
  settle(view, {want(2)});
  view.nodes["w2"] = workers(2).nodes["w2"];
  auto first = settle(view, {want(2)});
  REQUIRE(first.deploy.size() == 1);
  CHECK(first.deploy[0].node == "w2");
  auto second = settle(view, {want(2)});
  CHECK(second.deploy.empty());
  REQUIRE(second.evict.size() == 1);
  CHECK(second.evict[0].node == "w1");
  auto third = settle(view, {want(2)});
  CHECK(third.deploy.empty());
  CHECK(third.evict.empty());
}

TEST_CASE("placement: a model nobody wants any more goes") {
  auto view = workers(1);
  settle(view, {want(1)});
  CHECK(settle(view, {}).evict.size() == 1);
}

TEST_CASE("placement: a new version is ready before the old one goes") {
  auto view = workers(2, {1, 2});
  settle(view, {want(1, "1")});
  auto first = settle(view, {want(1, "2")});
  CHECK(first.deploy.size() == 1);
  CHECK(first.evict.empty());
  auto second = settle(view, {want(1, "2")});
  REQUIRE(second.evict.size() == 1);
  CHECK(second.evict[0].replica == "m.1.1");
}

TEST_CASE("placement: what serves by another policy is replaced like another"
          " version") {
  auto view = workers(1);
  settle(view, {want(1)});
  auto other = want(1);
  other.policy.batch = 8;
  auto first = settle(view, {other});
  REQUIRE(first.deploy.size() == 1);
  CHECK(first.deploy[0].policy.batch == 8);
  CHECK(first.evict.empty());
  CHECK(settle(view, {other}).evict.size() == 1);
  CHECK(settle(view, {other}).deploy.empty());
}

TEST_CASE("placement: a draining node gets nothing and counts for nothing") {
  auto view = workers(2);
  settle(view, {want(2)});
  view.nodes["w1"].draining = true;
  auto plan = settle(view, {want(2)});
  REQUIRE(plan.deploy.size() == 1);
  CHECK(plan.deploy[0].node == "w2");
  CHECK(plan.deploy[0].replica == "m.1.3");
}

TEST_CASE("placement: a device without room gets nothing, and why is said") {
  auto view = workers(1);
  view.nodes["w1"].devices[0].memory = {150};
  auto plan = settle(view, {want(2)});
  CHECK(plan.deploy.size() == 1);
  CHECK(plan.notes["m"] == "no device has room");
}

TEST_CASE("I12: a replica that starts or drains takes its memory") {
  auto view = workers(1);
  view.nodes["w1"].devices[0].memory = {150};
  REQUIRE(settle(view, {want(1)}).deploy.size() == 1);
  for (auto state :
       {replica_condition::starting, replica_condition::draining}) {
    auto& there = view.nodes["w1"].replicas[0];
    there.state = state;
    there.memory = 0; // it does not know yet
    CHECK(reconcile(view, {want(2)}).deploy.empty());
  }
  view.nodes["w1"].replicas[0].state = replica_condition::failed;
  CHECK(reconcile(view, {want(1)}).deploy.size() == 1);
}

TEST_CASE("placement: without a bundle of the version nothing is placed") {
  auto view = workers(1);
  auto plan = reconcile(view, {want(1, "9")});
  CHECK(plan.deploy.empty());
  CHECK(plan.notes["m"] == "no node has a bundle of version '9'");
  auto other = want(1);
  other.model = "typo";
  CHECK(reconcile(view, {other}).notes["typo"] == "no node has a bundle of it");
  CHECK(reconcile(workers(0), {want(1)}).notes["m"] == "no worker is there");
}

TEST_CASE("placement: thousands of replicas are planned in one go") {
  auto plan = reconcile(workers(2), {want(10'000)});
  CHECK(plan.deploy.size() == 10'000);
  CHECK(plan.deploy.back().replica == "m.1.10000");
}

TEST_CASE("placement: a wish for a device is an id or a kind") {
  auto view = workers(2);
  view.nodes["w2"].devices[0] = {"gpu0", "v100", 1, {}};
  for (auto wish : {"gpu0", "v100"}) {
    auto wanted = want(1);
    wanted.device = wish;
    auto plan = reconcile(view, {wanted});
    REQUIRE(plan.deploy.size() == 1);
    CHECK(plan.deploy[0].node == "w2");
  }
}

namespace {

/// Workers whose model m has twelve layers of so many bytes each, on devices
/// with so much memory.
cluster_view with_memory(size_t n, uint64_t memory, uint64_t layer = 10) {
  auto out = workers(n);
  for (auto& [name, node] : out.nodes) {
    node.models[0].bytes = 12 * layer;
    node.models[0].layer_bytes.assign(12, layer);
    node.devices[0].memory = {memory};
  }
  return out;
}

model_settings in_parts(uint64_t parts, bool complete = true) {
  auto out = want(1);
  out.parts = parts;
  out.complete = complete;
  return out;
}

/// Carries a plan out, and says of each replica what it has, where it is, and
/// what it takes.
placement_plan carry_out(cluster_view& view,
                         const std::vector<model_settings>& wanted,
                         replica_condition started = replica_condition::ready) {
  auto plan = reconcile(view, wanted);
  for (auto& x : plan.evict)
    std::erase_if(view.nodes[x.node].replicas,
                  [&](auto& r) { return r.what.replica == x.replica; });
  for (auto& x : plan.deploy)
    view.nodes[x.node].replicas.push_back({x, started, {}, 0, {}, {}, {}});
  return plan;
}

bool is_idle(const placement_plan& x) {
  return x.deploy.empty() && x.evict.empty();
}

const layer_range whole{0, 12};

} // namespace

TEST_CASE("FP-24: a part that is ready is completed where it is, and goes with"
          " the others once all of them are") {
  auto view = with_memory(3, 130);
  auto wanted = in_parts(3);
  auto parts = carry_out(view, {wanted}, replica_condition::starting);
  REQUIRE(parts.deploy.size() == 3);
  CHECK(is_idle(reconcile(view, {wanted})));
  view.nodes["w1"].replicas[0].state = replica_condition::ready;
  auto begun = carry_out(view, {wanted}, replica_condition::starting);
  REQUIRE(begun.deploy.size() == 1);
  CHECK(begun.deploy[0].node == "w1");
  CHECK(begun.deploy[0].layers == whole);
  CHECK(begun.deploy[0].completes == parts.deploy[0].replica);
  for (auto node : {"w2", "w3"})
    view.nodes[node].replicas[0].state = replica_condition::ready;
  CHECK(carry_out(view, {wanted}).deploy.size()
        == 2); // which are ready at once
  CHECK(count_copies(view, wanted).ready == 3);
  CHECK(is_idle(reconcile(view, {wanted}))); // the first still loads
  view.nodes["w1"].replicas[1].state = replica_condition::ready;
  auto over = carry_out(view, {wanted});
  CHECK(over.deploy.empty());
  CHECK(over.evict.size() == 3);
  for (auto& [name, node] : view.nodes) {
    REQUIRE(node.replicas.size() == 1);
    CHECK(node.replicas[0].what.layers == whole);
  }
  CHECK(is_idle(reconcile(view, {wanted})));
  CHECK(count_copies(view, wanted).ready == 3);
}

TEST_CASE("FP-24: a part goes where there is room for the whole, if there is,"
          " and where there is not it goes once enough copies are whole") {
  auto view = with_memory(3, 130);
  auto wanted = in_parts(2);
  view.nodes["w1"].devices[0].memory = {60};
  for (auto& x : carry_out(view, {wanted}).deploy)
    CHECK(x.node != "w1");
  view.nodes.erase("w3");
  carry_out(view, {wanted});
  auto plan = reconcile(view, {wanted});
  CHECK(plan.deploy.empty()); // w2's is complete, w1's cannot be
  CHECK(plan.notes["m"] == "no room for whole replicas where its parts are");
  CHECK(count_copies(view, wanted).ready == 2); // the whole one, and the parts
  CHECK(carry_out(view, {wanted}).evict.size() == 2);
  CHECK(count_copies(view, wanted).ready == 1); // as many as are wanted
}

TEST_CASE("FP-24: nobody wants it any more, and neither its parts nor what"
          " completes them stay") {
  auto view = with_memory(2, 130);
  carry_out(view, {in_parts(2)});
  carry_out(view, {in_parts(2)}, replica_condition::starting);
  auto none = in_parts(2);
  none.replicas = 0;
  CHECK(carry_out(view, {none}).evict.size() == 4);
}

TEST_CASE(
  "FP-24: a node is lost, and parts go elsewhere where none is whole yet;"
  " a whole replica beyond the copies that are wanted is not replaced") {
  auto view = with_memory(4, 130);
  auto wanted = in_parts(3);
  carry_out(view, {wanted});
  SUBCASE("while all parts are completed") {
    carry_out(view, {wanted}, replica_condition::starting);
    view.nodes.erase("w1");
    auto plan = carry_out(view, {wanted});
    REQUIRE(plan.deploy.size() == 1);
    CHECK(plan.deploy[0].node == "w4");
    CHECK(plan.deploy[0].layers != whole);
  }
  SUBCASE("when some are whole") {
    carry_out(view, {wanted});
    view.nodes["w3"].replicas[1].state = replica_condition::starting;
    view.nodes.erase("w1");
    auto plan = carry_out(view, {wanted});
    CHECK(plan.deploy.empty());
    // The pipeline is none any more: who is whole needs its part no longer.
    REQUIRE(plan.evict.size() == 1);
    CHECK(plan.evict[0].node == "w2");
  }
  SUBCASE("when all are") {
    carry_out(view, {wanted});
    carry_out(view, {wanted});
    view.nodes.erase("w1");
    CHECK(is_idle(reconcile(view, {wanted})));
    view.nodes.erase("w2");
    view.nodes.erase("w3"); // the last copy: it begins in parts again
    view.nodes["w4"].devices[0].memory = {300};
    auto plan = carry_out(view, {wanted});
    REQUIRE(plan.deploy.size() == 3);
    CHECK(plan.deploy[0].layers != whole);
  }
  for (int i = 0; i < 4; ++i) {
    for (auto& [name, node] : view.nodes)
      for (auto& r : node.replicas)
        r.state = replica_condition::ready;
    carry_out(view, {wanted});
  }
  CHECK(is_idle(reconcile(view, {wanted})));
  CHECK(count_copies(view, wanted).ready >= 1);
  for (auto& [name, node] : view.nodes)
    for (auto& r : node.replicas)
      CHECK(r.what.layers == whole);
}

TEST_CASE("FP-24: parts on one device become one whole replica, or as many as"
          " are wanted") {
  auto view = with_memory(2, 1000);
  view.nodes.erase("w2");
  auto wanted = in_parts(3);
  uint64_t copies = 1;
  SUBCASE("one copy") {
  }
  SUBCASE("two copies") {
    copies = 2;
  }
  wanted.replicas = copies;
  carry_out(view, {wanted});
  auto begun = carry_out(view, {wanted});
  CHECK(begun.deploy.size() == copies);
  CHECK(carry_out(view, {wanted}).evict.size() == 3 * copies);
  CHECK(is_idle(reconcile(view, {wanted})));
  CHECK(count_copies(view, wanted).ready == copies);
}

TEST_CASE("FP-24: each device with a part gets one whole replica, in whatever"
          " order the parts become ready; one device gets more where the others"
          " have no room") {
  auto view = with_memory(3, 1000);
  auto wanted = in_parts(3);
  wanted.replicas = 2;
  uint64_t wholes = 3;
  SUBCASE("each has room") {
  }
  SUBCASE("only one has") {
    wholes = 2;
  }
  carry_out(view, {wanted}, replica_condition::starting);
  if (wholes == 2)
    for (auto node : {"w1", "w3"})
      view.nodes[node].devices[0].memory = {100};
  for (auto node : {"w2", "w1", "w3"}) {
    auto& there = view.nodes[node].replicas;
    REQUIRE(there.size() == 2);
    for (auto& r : there)
      r.state = replica_condition::ready;
    auto begun = carry_out(view, {wanted}, replica_condition::starting);
    for (auto& x : begun.deploy)
      CHECK(x.layers == whole);
    CHECK(begun.deploy.size() <= 1);
  }
  for (int i = 0; i < 3; ++i) {
    for (auto& [name, node] : view.nodes)
      for (auto& r : node.replicas)
        r.state = replica_condition::ready;
    carry_out(view, {wanted});
  }
  CHECK(is_idle(reconcile(view, {wanted})));
  CHECK(count_copies(view, wanted).ready == wholes);
  for (auto& [name, node] : view.nodes)
    CHECK(node.replicas.size() == (wholes == 3 ? 1 : name == "w2" ? 2 : 0));
}

TEST_CASE("FP-24: once enough copies are whole no part is put anywhere, nor"
          " spread") {
  auto view = with_memory(2, 1000);
  auto wanted = in_parts(2);
  carry_out(view, {wanted});
  carry_out(view, {wanted});
  auto& there = view.nodes["w2"].replicas;
  REQUIRE(there.size() == 2);
  there[1].state = replica_condition::starting;
  view.nodes["w3"] = with_memory(3, 1000).nodes["w3"];
  CHECK(is_idle(reconcile(view, {wanted})));
}

TEST_CASE("placement: no replica gets a number that another has had") {
  auto view = with_memory(2, 1000);
  auto first = carry_out(view, {want(2)});
  REQUIRE(first.deploy.size() == 2);
  for (auto& x : first.deploy)
    view.numbers.add(x.replica);
  view.nodes["w1"].replicas.clear(); // lost, and forgotten
  auto second = carry_out(view, {want(2)});
  REQUIRE(second.deploy.size() == 1);
  CHECK(second.deploy[0].replica == "m.1.3");
  CHECK(number_of("m.1.3") == 3);
}

TEST_CASE("placement: why a model cannot be served goes to who is asked for"
          " it") {
  auto view = with_memory(1, 1000);
  auto plan = reconcile(view, {in_parts(99)});
  REQUIRE(plan.serve.size() == 1);
  CHECK(plan.serve[0].note
        == "it has 12 layers, and cannot be cut into 99 parts");
}

TEST_CASE("placement: copies beyond those that are wanted make way for a model"
          " that has none") {
  auto view = with_memory(2, 150);
  for (auto& [name, node] : view.nodes) {
    node.models.push_back(node.models[0]);
    node.models[1].model = "other";
    node.models[1].bytes = 100;
    node.models[1].layer_bytes = {100};
  }
  auto wanted = in_parts(2);
  for (int i = 0; i < 3; ++i)
    carry_out(view, {wanted});
  REQUIRE(count_copies(view, wanted).ready == 2);
  auto other = want(1);
  other.model = "other";
  auto first = carry_out(view, {wanted, other});
  CHECK(first.deploy.empty());
  REQUIRE(first.evict.size() == 1);
  auto second = carry_out(view, {wanted, other});
  REQUIRE(second.deploy.size() == 1);
  CHECK(second.deploy[0].model == "other");
  CHECK(second.deploy[0].node == first.evict[0].node);
  CHECK(is_idle(reconcile(view, {wanted, other})));
  CHECK(count_copies(view, wanted).ready == 1);
}

TEST_CASE("FP-37: a worker that can get a bundle from another may serve it") {
  auto view = workers(2);
  view.nodes["w2"].models.clear();
  auto placed = [&] {
    std::map<std::string, size_t> out;
    for (auto& x : reconcile(view, {want(2)}).deploy)
      ++out[x.node];
    return out;
  };
  CHECK(placed() == std::map<std::string, size_t>{{"w1", 2}});
  view.nodes["w2"].fetches = true;
  CHECK(placed()
        == std::map<std::string, size_t>{{"w1", 2}}); // it cannot travel
  view.nodes["w1"].models[0].content = "c0ffee";
  CHECK(placed() == std::map<std::string, size_t>{{"w1", 1}, {"w2", 1}});
  for (auto& x : reconcile(view, {want(2)}).deploy) {
    CHECK(x.content == "c0ffee");
    CHECK(x.bytes == 100);
  }
}

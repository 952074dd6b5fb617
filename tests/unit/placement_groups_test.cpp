// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <map>

#include "actors/policies/scale/given.hpp"
#include "tests/support/cluster_views.hpp"

using namespace millrace;
using namespace millrace::test::views;

namespace {

/// The groups that policy `given` proposes for model m.
wanted_groups given(const cluster_view& view, const std::string& text) {
  auto out = groups_for(view, want(1));
  auto model = *out.model;
  model.elastic = true;
  out.model = std::make_shared<const model_state>(model);
  cluster_snapshot snapshot;
  snapshot.models["m"] = out.model;
  scope_state scope;
  scope.models = {"m"};
  snapshot.scopes["model/m"] = std::make_shared<const scope_state>(scope);
  auto policy = given_scaling::make("model/m", {text, {}});
  REQUIRE_MESSAGE(policy, text);
  policy_memory memory;
  random_stream random{1};
  out.groups = (*policy)->propose(snapshot, memory, random, {}).groups;
  return out;
}

/// Plans until no change is left; every replica is ready at once. Returns the
/// numbers of deployed and evicted replicas.
std::pair<size_t, size_t> settle_on(cluster_view& view,
                                    const wanted_groups& wanted) {
  std::pair<size_t, size_t> out; // deployed, evicted
  for (int i = 0; i < 10; ++i) {
    auto plan = test::views::reconcile(view, std::vector{wanted});
    out.first += plan.deploy.size();
    out.second += plan.evict.size();
    apply(view, plan, replica_condition::ready, 0);
    if (is_idle(plan))
      return out;
  }
  FAIL("it does not come to rest");
  return out;
}

/// Names of the running replicas, by group.
std::map<std::string, std::vector<std::string>>
replicas_by_group(const cluster_view& view) {
  std::map<std::string, std::vector<std::string>> out;
  for (auto& [name, node] : view.nodes)
    for (auto& r : node.replicas)
      out[r.what.group.id].push_back(r.what.replica);
  return out;
}

using moves = std::pair<size_t, size_t>;

} // namespace

TEST_CASE("FP-31: whole replicas and groups of two cuts run side by side and a "
          "change to one leaves the others") {
  auto view = with_memory(12, 0);
  CHECK(settle_on(view, given(view, "whole x2; 3 parts x1; 4 parts x2"))
        == moves{2 + 3 + 8, 0});
  auto before = replicas_by_group(view);
  CHECK(before.size() == 1 + 3 + 4);
  SUBCASE("one more whole replica") {
    CHECK(settle_on(view, given(view, "whole x3; 3 parts x1; 4 parts x2"))
          == moves{1, 0});
  }
  SUBCASE("one group less of a cut") {
    CHECK(settle_on(view, given(view, "whole x2; 3 parts x1; 4 parts x1"))
          == moves{0, 4});
  }
  SUBCASE("a cut is removed") {
    CHECK(settle_on(view, given(view, "whole x2; 4 parts x2")) == moves{0, 3});
  }
  SUBCASE("another cut is added first in the list") {
    CHECK(settle_on(view,
                    given(view, "cuts 5 x1; whole x2; 3 parts x1; 4 parts x2"))
          == moves{2, 0});
  }
  auto after = replicas_by_group(view);
  for (auto& [id, names] : before)
    if (after.contains(id) && after[id].size() == names.size())
      CHECK(after[id] == names);
}

TEST_CASE("placement: groups on different device kinds are separate and a "
          "replica on a wrong device is replaced") {
  auto view = workers(4);
  view.nodes["w3"].devices[0].kind = view.nodes["w4"].devices[0].kind = "gpu";
  settle_on(view, given(view, "whole x1 on cpu; whole x1 on gpu"));
  auto there = replicas_by_group(view);
  CHECK(there["model/m/m/whole/whole@cpu"].size() == 1);
  CHECK(there["model/m/m/whole/whole@gpu"].size() == 1);
  CHECK(settle_on(view, given(view, "whole x2 on cpu; whole x1 on gpu"))
        == moves{1, 0});
  auto on_cpu = want(1), on_gpu = want(1);
  on_cpu.device = "cpu";
  on_gpu.device = "gpu";
  auto other = workers(2);
  other.nodes["w2"].devices[0].kind = "gpu";
  settle(other, {on_cpu});
  auto first = settle(other, {on_gpu});
  REQUIRE(first.deploy.size() == 1);
  CHECK(first.deploy[0].node == "w2");
  CHECK(first.evict.empty());
  CHECK(settle(other, {on_gpu}).evict.size() == 1);
}

TEST_CASE("placement: a group is placed on the device it names and on no node "
          "it avoids") {
  auto view = workers(3);
  auto wanted = groups_for(view, want(1));
  wanted.groups[0].device = "w3/cpu0";
  auto plan = test::views::reconcile(view, std::vector{wanted});
  REQUIRE(plan.deploy.size() == 1);
  CHECK(plan.deploy[0].node == "w3");
  wanted.groups[0].device.clear();
  wanted.groups[0].avoid = {"w1", "w2"};
  wanted.groups[0].count = 2;
  plan = test::views::reconcile(view, std::vector{wanted});
  REQUIRE(plan.deploy.size() == 2);
  CHECK(plan.deploy[0].node == "w3");
  CHECK(plan.deploy[1].node == "w3");
}

TEST_CASE("placement: a replica carries its group and a model without a "
          "decision of its scope keeps its replicas") {
  auto view = workers(2);
  auto wanted = groups_for(view, want(2));
  auto plan = test::views::reconcile(view, std::vector{wanted});
  REQUIRE(plan.deploy.size() == 2);
  auto& group = plan.deploy[0].group;
  CHECK(group.id == "model/m/m/whole");
  CHECK(group.scope == "model/m");
  CHECK(group.count == 2);
  apply(view, plan, replica_condition::ready, 0);
  wanted.groups.clear();
  CHECK(is_idle(test::views::reconcile(view, std::vector{wanted})));
  wanted.refused = "it cannot be cut so";
  auto refused = test::views::reconcile(view, std::vector{wanted});
  CHECK(is_idle(refused));
  CHECK(refused.notes["m"] == "it cannot be cut so");
}

TEST_CASE("given: an invalid group is refused and so is a duplicate") {
  for (auto* text : {"", "half", "3", "1 parts", "cuts", "cuts 4/x", "whole y2",
                     "whole on", "whole; whole x2"})
    CHECK_FALSE_MESSAGE(parse_given(text), std::string{text});
  auto items = parse_given("whole x2; 3 parts on v100 ; cuts 4/8 x3");
  REQUIRE(items);
  REQUIRE(items->size() == 3);
  CHECK((*items)[0].copies == 2);
  CHECK((*items)[1].device == "v100");
  CHECK((*items)[2].cuts == std::vector<uint64_t>{4, 8});
}

TEST_CASE("given: parameters of a group are read and one out of bounds is "
          "refused by name") {
  auto items = parse_given("whole on w1/gpu0 batch 9 share 0.5 weight 2;"
                           " whole x3 batch 5 batch-max 8 concurrency 1"
                           " threads 2");
  REQUIRE(items);
  CHECK((*items)[0].batch == 9u);
  CHECK((*items)[0].share == 0.5);
  CHECK((*items)[0].weight == 2.);
  CHECK((*items)[1].batch_max == 8u);
  CHECK((*items)[1].concurrency == 1u);
  CHECK((*items)[1].threads == 2u);
  CHECK((*items)[1].copies == 3);
  auto alike = parse_given("whole batch 4; whole x2 batch 8");
  REQUIRE(alike);
  CHECK((*alike)[1].number == 2);
  const std::map<std::string, std::string> refused{
    {"whole share 1.5",
     "share: expected a number from 0.001 to 1, found '1.5'"},
    {"whole share 0", "share: expected a number from 0.001 to 1, found '0'"},
    {"whole batch 0", "batch: expected a number from 1 to 4096, found '0'"},
    {"whole concurrency 0",
     "concurrency: expected a number from 1 to 256, found '0'"},
    {"whole weight 0", "weight: expected a number from 0.001 to 1000, found"
                       " '0'"},
    {"whole batch 9 batch-max 8", "batch-max of 'whole batch 9 batch-max 8' is"
                                  " below its batch (expected at least 9)"},
    {"whole speed 3", "no parameter 'speed' (expected on, share, batch,"
                      " batch-max, concurrency, threads or weight)"},
    {"whole batch 9 batch 5", "batch is there twice in one item"},
    {"whole batch 4; whole batch 4 x2",
     "' whole batch 4 x2' is there twice (expected one, with xN)"}};
  for (auto& [text, why] : refused) {
    auto found = parse_given(text);
    REQUIRE(!found);
    CHECK(found.failure().text == "groups: " + why);
  }
}

TEST_CASE("given: the sharing of devices is read and an unknown mode or number "
          "is refused") {
  auto plans = parse_shared("w1/gpu0 wave at-once 4; cpu cap per-replica 1");
  REQUIRE(plans);
  REQUIRE(plans->size() == 2);
  CHECK((*plans)[0] == device_plan{"w1/gpu0", {sharing_mode::wave, 4, 0}});
  CHECK((*plans)[1] == device_plan{"cpu", {sharing_mode::cap, 0, 1}});
  CHECK(parse_shared("")->empty());
  for (auto* text :
       {"gpu0", "gpu0 fast", "gpu0 wave at-once 0", "gpu0 wave at-once",
        "gpu0 wave 4", "gpu0 time at-once 2", "gpu0 time; gpu0 lanes"})
    CHECK_FALSE_MESSAGE(parse_shared(text), std::string{text});
}

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>

#include "actors/policies/place/filters.hpp"
#include "actors/policies/place/order.hpp"
#include "actors/policies/registry.hpp"
#include "runtime/random.hpp"
#include "tests/support/cluster_views.hpp"

using namespace millrace;
using namespace millrace::test::views;

namespace {

replica_group group(const std::string& model, uint64_t count,
                    uint64_t least = 0, int64_t priority = 0) {
  replica_group out;
  out.id = "s/" + model + "/whole";
  out.model = model;
  out.version = 1;
  out.cut = "whole";
  out.layers = {0, 1};
  out.count = count;
  out.least = least;
  out.priority = priority;
  return out;
}

/// The groups that policy `fixed` proposes for a version of model m, with
/// `rollout`.
wanted_groups in_version(const cluster_view& view, uint64_t replicas,
                         const std::string& version, rollout_settings rollout) {
  auto out = groups_for(view, want(replicas, version));
  out.rollout = rollout;
  return out;
}

struct counted {
  uint64_t old = 0, fresh = 0;
};

counted count_versions(const cluster_view& view) {
  counted out;
  for (auto& [name, node] : view.nodes)
    for (auto& r : node.replicas)
      ++(r.what.version == 1 ? out.old : out.fresh);
  return out;
}

/// A policy that places all replicas on one device without a check for room.
class careless_policy : public placement_policy {
public:
  placement_map place(const cluster_snapshot&,
                      std::span<const placement_request> wanted,
                      capacity_reservation&) const override {
    placement_map out;
    for (size_t i = 0; i < wanted.size(); ++i)
      out.chosen.insert(out.chosen.end(), wanted[i].missing, {i, 0});
    return out;
  }
};

} // namespace

TEST_CASE("placement: a higher priority is placed first and then the minimum "
          "of each group and then the smallest fraction") {
  auto a = group("a", 4), b = group("b", 2, 2), c = group("c", 2, 0, 1);
  std::vector<placement_request> wanted{{&a, 0, 4}, {&b, 0, 2}, {&c, 0, 2}};
  CHECK(placing_order(wanted) == std::vector<size_t>{2, 2, 1, 1, 0, 0, 0, 0});
  b.least = 0;
  CHECK(placing_order(wanted) == std::vector<size_t>{2, 2, 0, 1, 0, 0, 1, 0});
  wanted[0] = {&a, 3, 1}; // three of four are placed
  CHECK(placing_order(wanted) == std::vector<size_t>{2, 2, 1, 1, 0});
}

TEST_CASE("placement: scarce room is shared by fraction") {
  auto view = with_memory(4, 120);
  for (auto& [name, node] : view.nodes) {
    node.models.push_back(node.models[0]);
    node.models[1].model = "n";
  }
  auto other = want(4);
  other.model = "n";
  std::map<std::string, int> placed;
  for (auto& x : reconcile(view, {want(4), other}).deploy)
    ++placed[x.model];
  CHECK(placed["m"] == 2);
  CHECK(placed["n"] == 2);
}

TEST_CASE("placement: a cut with a part that finds no room is not placed and "
          "the note names the filter") {
  auto view = with_memory(2, 45); // three parts of 40 bytes each
  auto plan = reconcile(view, {in_parts(3, false)});
  CHECK(plan.deploy.empty());
  CHECK(plan.notes["m"]
        == "no device has room (asked 40 B, free 5 B at most, on w1/cpu0)");
  auto larger = with_memory(3, 45);
  CHECK(reconcile(larger, {in_parts(3, false)}).deploy.size() == 3);
}

TEST_CASE("placement: the refusal names the filter that no device passed") {
  auto view = with_memory(2, 45);
  auto refused_by = [&](const replica_group& g) {
    least_loaded_placement policy{{}};
    std::array wanted{placement_request{&g, 0, 1}};
    device_capacity room{view, {}};
    capacity_reservation trial{room};
    auto map = policy.place({}, wanted, trial);
    REQUIRE(map.refused.size() == 1);
    return map.refused[0].filter;
  };
  auto x = group("m", 1);
  x.layers = {0, 12};
  CHECK(refused_by(x) == "memory");
  x.layers = {0, 4};
  x.device = "v100";
  CHECK(refused_by(x) == "device");
  x.device = "";
  x.avoid = {"w1", "w2"};
  CHECK(refused_by(x) == "avoid");
  x.avoid = {};
  x.model = "unknown";
  CHECK(refused_by(x) == "bundle");
  for (auto& [name, node] : view.nodes)
    node.draining = true;
  CHECK(refused_by(x) == "draining");
}

TEST_CASE("placement: a map beyond the room of a device is refused as a whole "
          "and running replicas stay") {
  auto view = with_memory(2, 150);
  settle(view, {want(1)});
  auto plan = millrace::reconcile(view, {groups_for(view, want(3))},
                                  careless_policy{}, {});
  CHECK(is_idle(plan));
  CHECK(plan.notes["m"].find("the placement policy failed: w1/cpu0 has no room")
        == 0);
}

TEST_CASE("placement: every registered policy keeps the contract of placement "
          "policies") {
  for (auto& entry : placement_policies()) {
    CAPTURE(entry.name);
    auto policy = entry.make({});
    REQUIRE(policy);
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      CAPTURE(seed);
      random_stream chance{seed};
      auto view = with_memory(1 + chance.below(6), 60 + chance.below(200));
      settle(view, {want(chance.below(4))});
      std::vector<replica_group> groups;
      for (size_t i = 0; i < 3; ++i) {
        groups.push_back(group("m", 1 + chance.below(4), chance.below(2),
                               static_cast<int64_t>(chance.below(2))));
        groups.back().id += std::to_string(i);
        groups.back().layers = {0, 4 + 4 * chance.below(3)};
      }
      std::vector<placement_request> wanted;
      for (auto& g : groups)
        wanted.push_back({&g, 0, g.count});
      device_capacity room{view, {}};
      auto place = [&] {
        capacity_reservation trial{room};
        return (*policy)->place({}, wanted, trial);
      };
      auto x = place();
      CHECK(find_fault(x, wanted, room) == std::nullopt);
      auto again = place();
      REQUIRE(again.chosen.size() == x.chosen.size());
      for (size_t i = 0; i < x.chosen.size(); ++i)
        CHECK(again.chosen[i].device == x.chosen[i].device);
      std::vector<uint64_t> sums(wanted.size());
      for (auto& y : x.chosen)
        ++sums[y.request];
      for (auto& y : x.refused)
        sums[y.request] += y.count;
      for (size_t i = 0; i < wanted.size(); ++i)
        CHECK(sums[i] == wanted[i].missing);
    }
    cluster_view nothing;
    device_capacity room{nothing, {}};
    capacity_reservation trial{room};
    CHECK((*policy)->place({}, {}, trial).chosen.empty());
  }
}

TEST_CASE("rollout: replicas are replaced one at a time with at least the "
          "wanted number ready") {
  auto view = workers(4, {1, 2});
  settle(view, {want(4, "1")});
  uint64_t steps = 0;
  for (; count_versions(view).old > 0; ++steps) {
    REQUIRE(steps < 20);
    auto wanted = in_version(view, 4, "2", {1, 0});
    auto plan = reconcile(view, std::vector{wanted});
    CHECK(plan.deploy.size() <= 1);
    CHECK(plan.evict.size() <= 1);
    apply(view, plan, replica_condition::ready, 0);
    auto n = count_versions(view);
    CHECK(n.old + n.fresh >= 4);
    CHECK(n.old + n.fresh <= 5);
  }
  CHECK(count_versions(view).fresh == 4);
}

TEST_CASE("rollout: with a surge of two two replicas are replaced at a time") {
  auto view = workers(4, {1, 2});
  settle(view, {want(4, "1")});
  auto plan = reconcile(view, std::vector{in_version(view, 4, "2", {2, 0})});
  CHECK(plan.deploy.size() == 2);
  CHECK(plan.evict.empty());
}

TEST_CASE("rollout: an old replica serves until a new one is ready") {
  auto view = workers(2, {1, 2});
  settle(view, {want(2, "1")});
  auto wanted = in_version(view, 2, "2", {1, 0});
  auto plan = reconcile(view, std::vector{wanted});
  apply(view, plan, replica_condition::starting, 0);
  CHECK(is_idle(reconcile(view, std::vector{wanted})));
}

TEST_CASE("rollout: without room for new replicas the plan is refused unless "
          "old ones may be unavailable") {
  auto view = with_memory(2, 120);
  for (auto& [name, node] : view.nodes) {
    node.models.push_back(node.models[0]);
    node.models[1].version = 2;
  }
  settle(view, {want(2, "1")});
  auto stays = reconcile(view, std::vector{in_version(view, 2, "2", {1, 0})});
  CHECK(is_idle(stays));
  CHECK(stays.notes["m"]
        == "no device has room (asked 120 B, free 0 B at most, on w1/cpu0)"
           " beside the replicas that it replaces, on"
           " w1/cpu0, w2/cpu0; rollout.unavailable of its scope is 0");
  auto one = reconcile(view, std::vector{in_version(view, 2, "2", {1, 1})});
  CHECK(one.deploy.empty());
  CHECK(one.evict.size() == 1);
  auto both = reconcile(view, std::vector{in_version(view, 2, "2", {2, 2})});
  CHECK(both.evict.size() == 2);
  auto kept = in_version(view, 2, "2", {2, 2});
  for (auto& g : kept.groups)
    g.least = 1;
  CHECK(reconcile(view, std::vector{kept}).evict.size() == 1);
}

TEST_CASE("rollout: a replica of an old version that does not serve yet is "
          "evicted at once") {
  auto view = workers(2, {1, 2});
  carry_out(view, {want(2, "1")}, replica_condition::starting);
  auto plan = reconcile(view, std::vector{in_version(view, 2, "2", {1, 0})});
  CHECK(plan.evict.size() == 2);
}

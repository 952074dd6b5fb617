// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "actors/policies/place/filters.hpp"
#include "actors/policies/registry.hpp"
#include "actors/policies/state/costs.hpp"
#include "runtime/random.hpp"
#include "tests/support/capacity_views.hpp"

using namespace millrace;
using namespace millrace::test::views;

namespace {

/// A cluster that changes at random: replicas start, change and end, nodes
/// drain, join and leave, caches fill.
class changing_cluster {
public:
  explicit changing_cluster(uint64_t seed)
    : chance_(seed),
      view_(hosts_with_devices(6, 3)) {
    for (auto& [name, node] : view_.nodes)
      node.cache_memory = 1000;
    view_.nodes["h2"].devices[1].kind = "a10";
  }

  const cluster_view& view() const { return view_; }
  random_stream& chance() { return chance_; }
  std::set<std::string> take_changed() { return std::exchange(changed_, {}); }

  replica_group draw_group() {
    auto first = chance_.below(3);
    return group_of(chance_.below(2) == 0 ? "m" : "n",
                    first == 2 ? layer_range{0, 2}
                               : layer_range{first, first + 1},
                    chance_.below(30));
  }

  void step() {
    auto i = view_.nodes.begin();
    std::advance(i, static_cast<long>(chance_.below(view_.nodes.size())));
    changed_.insert(i->first);
    auto& node = i->second;
    switch (chance_.below(8)) {
    case 0:
      node.draining = !node.draining;
      return;
    case 1:
      node.held = {{"content of m", 1 + chance_.below(200),
                    chance_.below(2) == 0, chance_.below(2) == 0}};
      return;
    case 2:
      if (chance_.below(20) == 0)
        return come_or_go(i->first);
      node.fetches = chance_.below(4) != 0;
      return;
    case 3:
      if (chance_.below(10) == 0)
        node.models = {bundle_of_size("m", 100), bundle_of_size("n", 60)};
      return;
    case 4:
      if (!node.replicas.empty())
        node.replicas.erase(node.replicas.begin());
      return;
    case 5:
      for (auto& r : node.replicas)
        r.state = static_cast<replica_condition>(chance_.below(4));
      return;
    default:
      if (node.replicas.size() < 6)
        node.replicas.push_back(replica_on(
          draw_group(), node, "gpu" + std::to_string(chance_.below(3)),
          ++number_, static_cast<replica_condition>(chance_.below(4))));
    }
  }

private:
  void come_or_go(const std::string& name) {
    if (auto gone = view_.nodes.find("h9"); gone != view_.nodes.end()) {
      changed_.insert("h9");
      view_.nodes.erase(gone);
      return;
    }
    auto copy = view_.nodes[name];
    copy.node.name = "h9";
    copy.replicas.clear();
    changed_.insert("h9");
    view_.nodes["h9"] = copy;
  }

  random_stream chance_;
  cluster_view view_;
  std::set<std::string> changed_;
  int number_ = 0;
};

/// A cost book with activations of model m on a v100: `per_row` bytes per row.
std::shared_ptr<const cost_book> activations_of_m(double per_row) {
  profile known;
  known.model = "m";
  for (double rows : {1., 8., 64.})
    known.points.push_back(
      {"v100", rows, {}, {{"activation_bytes", per_row * rows}}});
  cost_book book{1, {}, {}};
  book.profiles["m"] =
    std::make_shared<const model_profiles>(model_profiles{{known}});
  return std::make_shared<const cost_book>(book);
}

} // namespace

TEST_CASE("capacity: after each of 10,000 random steps the index equals one"
          " that is rebuilt") {
  changing_cluster cluster{1};
  auto costs = activations_of_m(1);
  std::set<std::string> completed;
  device_capacity kept{cluster.view(), completed, costs};
  size_t differ = 0, booked = 0;
  for (int step = 0; step < 10'000 && differ == 0; ++step) {
    CAPTURE(step);
    for (auto n = cluster.chance().below(3); n-- > 0;)
      cluster.step();
    if (cluster.chance().below(100) == 0)
      completed = completed.empty() ? std::set<std::string>{"m"}
                                    : std::set<std::string>{};
    if (cluster.chance().below(100) == 0)
      costs = activations_of_m(static_cast<double>(cluster.chance().below(3)));
    kept.follow(cluster.take_changed(), completed, costs);
    device_capacity fresh{cluster.view(), completed, costs};
    differ += !(kept == fresh);
    { // A booking that is undone leaves no trace and is the same in both.
      capacity_reservation outer{kept}, other{fresh};
      for (auto n = cluster.chance().below(4); n-- > 0; ++booked) {
        auto group = cluster.draw_group();
        auto at = cluster.chance().below(kept.size());
        outer.book(at, group);
        other.book(at, group);
        capacity_reservation inner{kept};
        inner.book(cluster.chance().below(kept.size()), cluster.draw_group());
        kept.wait(at, group, 10, true);
        kept.leave(at, {5, 5, 5});
      }
      differ += !(kept == fresh);
    }
    differ += !(kept == fresh);
  }
  CHECK(differ == 0);
  CHECK(booked > 10'000);
}

TEST_CASE("capacity: the index finds the device that a search over all devices"
          " finds") {
  changing_cluster cluster{2};
  for (int step = 0; step < 500; ++step) {
    cluster.step();
    auto costs = activations_of_m(1);
    device_capacity room{cluster.view(), {"n"}, costs};
    auto group = cluster.draw_group();
    group.batch_max = cluster.chance().below(100);
    if (cluster.chance().below(3) == 0)
      group.device = std::array{"gpu1", "a10", "h2/gpu0", "v100",
                                "nowhere"}[cluster.chance().below(5)];
    auto whole = cluster.chance().below(2) == 0;
    std::optional<size_t> expected;
    for (size_t at = 0; at < room.size(); ++at)
      if (is_eligible(room, group, at) && has_room(room, group, at, whole)
          && (!expected || room[at].load < room[*expected].load))
        expected = at;
    CAPTURE(step);
    CHECK(pick_device(room, group, device_order::emptiest, whole,
                      [](auto) { return true; })
          == expected);
    auto fullest = pick_device(room, group, device_order::fullest, whole,
                               [](auto) { return true; });
    CHECK(fullest.has_value() == expected.has_value());
    if (fullest)
      CHECK(has_room(room, group, *fullest, whole));
  }
}

TEST_CASE("capacity: memory of a replica is its weights and the activations of"
          " its largest batch") {
  auto view = hosts_with_devices(1, 1); // 1,000 bytes
  auto group = group_of("m");           // 200 bytes of weights
  device_capacity plain{view, {}};
  group.tuned.batch = group.batch_max = 8;
  CHECK(plain.of(plain[0], group).bytes == 200);
  device_capacity room{view, {}, activations_of_m(50)};
  CHECK(room.of(room[0], group).bytes == 200 + 8 * 50);
  group.batch_max = 16;
  CHECK(room.of(room[0], group).bytes == 200 + 16 * 50);
  CHECK(places_of("least_loaded", room, {{&group, 0, 2}}).size() == 1);
  group.batch_max = 17; // 1,050 bytes
  device_capacity small{view, {}, activations_of_m(50)};
  CHECK(places_of("least_loaded", small, {{&group, 0, 1}}).empty());
  placement_request request{&group, 0, 1};
  auto refused = refuse(small, request, 0, 1);
  CHECK(refused.filter == "memory");
  CHECK(refused.why
        == "no device has room (asked 1.03 KiB, free 1000 B at most, on"
           " h1/gpu0)");
  // A replica that runs takes its activations as well.
  auto running =
    replica_on(group, view.nodes["h1"], "gpu0", 1, replica_condition::ready);
  running.what.batch_max = running.what.tuned.batch = 8;
  running.memory = 210;
  view.nodes["h1"].replicas.push_back(running);
  device_capacity used{view, {}, activations_of_m(50)};
  CHECK(used[0].held == 210 + 8 * 50);
}

TEST_CASE("capacity: a replica that needs more units than are free is refused "
          "with both amounts") {
  auto view = hosts_with_devices(2, 1); // 100 units each
  auto group = group_of("m", {0, 2}, 60);
  for (auto& policy : placement_policies()) {
    CAPTURE(policy.name);
    CHECK(places_of(policy.name, view, group, 3).size() == 2);
  }
  device_capacity room{view, {}};
  capacity_reservation trial{room};
  placement_request request{&group, 0, 3};
  auto policy = make_placement_policy({});
  auto map = (*policy)->place({}, std::array{request}, trial);
  REQUIRE(map.refused.size() == 1);
  CHECK(map.refused[0].count == 1);
  CHECK(map.refused[0].filter == "units");
  CHECK(map.refused[0].why
        == "no device has units (asked 60, free 40 of 100 at most, on"
           " h1/gpu0)");
  placement_map careless;
  careless.chosen = {{0, 0}, {0, 0}};
  trial.undo();
  CHECK(find_fault(careless, std::array{request}, room)
        == "h1/gpu0 has no room for s/m/0: asked 60 units, free 40 of 100");
  for (auto& [name, node] : view.nodes)
    node.devices[0].units = 0; // not limited
  CHECK(places_of("least_loaded", view, group, 3).size() == 3);
}

TEST_CASE("capacity: the running plan stays when units run out and a change of "
          "units replaces a replica") {
  auto view = workers(2);
  for (auto& [name, node] : view.nodes)
    node.devices[0].units = 100;
  auto wanted = want(2);
  wanted.units = 60;
  CHECK(settle(view, {wanted}).deploy.size() == 2);
  auto more = wanted;
  more.replicas = 3;
  auto plan = reconcile(view, {more});
  CHECK(is_idle(plan));
  CHECK(plan.notes["m"]
        == "no device has units (asked 60, free 40 of 100 at most, on"
           " w1/cpu0)");
  wanted.units = 30;
  auto changed = carry_out(view, {wanted});
  REQUIRE(changed.deploy.size() == 1);
  CHECK(changed.deploy[0].units == 30);
}

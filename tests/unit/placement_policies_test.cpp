// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "actors/policies/place/filters.hpp"
#include "runtime/random.hpp"
#include "tests/support/capacity_views.hpp"

using namespace millrace;
using namespace millrace::test::views;

TEST_CASE("placement: pack takes the fullest device with room and leaves the "
          "others free") {
  auto view = hosts_with_devices(3, 1);
  auto large = group_of("m", {0, 2}, 50), small = group_of("m", {0, 2}, 20);
  device_capacity room{view, {}};
  room.book(1, large);
  CHECK(places_of("pack", room, {{&small, 0, 4}})
        == names{"h2/gpu0", "h2/gpu0", "h1/gpu0", "h1/gpu0"});
  CHECK(places_of("least_loaded", room, {{&small, 0, 3}})
        == names{"h1/gpu0", "h3/gpu0", "h1/gpu0"});
}

TEST_CASE("FP-32: all devices of hosts that have the model are used before any "
          "other host") {
  auto view = hosts_with_devices(5, 2);
  auto group = group_of("m");
  auto& h4 = view.nodes["h4"];
  h4.replicas.push_back(
    replica_on(group, h4, "gpu0", 1, replica_condition::ready));
  view.nodes["h3"].held = {{"content of m", 200, false, false}};
  auto& h2 = view.nodes["h2"]; // the model is arriving here
  h2.replicas.push_back(
    replica_on(group, h2, "gpu1", 2, replica_condition::starting));
  CHECK(
    places_of("two_stage", view, group, 6)
    == names{"h3/gpu0", "h3/gpu1", "h4/gpu1", "h2/gpu0", "h1/gpu0", "h5/gpu0"});
}

TEST_CASE("FP-33: further replicas go to distinct hosts with one device each "
          "and then round-robin over these") {
  auto view = hosts_with_devices(3, 3);
  auto group = group_of("m");
  auto& h2 = view.nodes["h2"]; // busy with another model
  h2.replicas.push_back(
    replica_on(group_of("n"), h2, "gpu0", 1, replica_condition::ready));
  CHECK(places_of("two_stage", view, group, 9)
        == names{"h1/gpu0", "h2/gpu1", "h3/gpu0", "h1/gpu1", "h2/gpu2",
                 "h3/gpu1", "h1/gpu2", "h2/gpu0", "h3/gpu2"});
  // The tenth replica shares a device with another replica of the model.
  CHECK(places_of("two_stage", view, group, 10).size() == 10);
}

TEST_CASE("FP-58: without the second stage of Flashpoint hosts are filled one "
          "after the other") {
  auto view = hosts_with_devices(3, 2);
  CHECK(places_of("two_stage", view, group_of("m"), 4, {{"fill", "true"}})
        == names{"h1/gpu0", "h1/gpu1", "h2/gpu0", "h2/gpu1"});
}

TEST_CASE("FP-58: with `apart` least_loaded takes hosts without the model"
          " first") {
  auto view = hosts_with_devices(3, 2);
  auto group = group_of("m");
  auto& h1 = view.nodes["h1"];
  h1.replicas.push_back(
    replica_on(group, h1, "gpu0", 1, replica_condition::ready));
  CHECK(places_of("least_loaded", view, group, 5, {{"apart", "true"}})
        == names{"h2/gpu0", "h3/gpu0", "h1/gpu1", "h2/gpu1", "h3/gpu1"});
}

TEST_CASE("FP-34: a device is eligible only with memory and units and a host "
          "that has or can fetch the bundle") {
  struct {
    const char* what;
    void (*change)(node_state&);
    bool eligible;
  } const table[]{
    {"all free", [](auto&) {}, true},
    {"memory", [](auto& x) { x.devices[0].memory = {199}; }, false},
    {"units", [](auto& x) { x.devices[0].units = 9; }, false},
    {"no fetching", [](auto& x) { x.fetches = false; }, false},
    {"cache too small", [](auto& x) { x.cache_memory = 199; }, false},
    {"cache with room", [](auto& x) { x.cache_memory = 200; }, true},
    {"process there, full cache",
     [](auto& x) {
       x.cache_memory = 200;
       x.held = {{"content of m", 200, true, false}};
       x.replicas.push_back(replica_on(group_of("m", {0, 2}, 10), x, "gpu1", 1,
                                       replica_condition::ready));
     },
     true}};
  for (auto& row : table) {
    CAPTURE(row.what);
    auto view = hosts_with_devices(2, 2);
    auto& x = view.nodes["h2"];
    row.change(x);
    auto group = group_of("m", {0, 2}, 10);
    group.device = "h2/gpu0";
    for (auto& policy : placement_policies()) {
      CAPTURE(policy.name);
      CHECK(places_of(policy.name, view, group, 1).size() == row.eligible);
    }
  }
}

TEST_CASE("FP-35: device and host memory are reserved at placement and "
          "released on failure or eviction") {
  auto view = hosts_with_devices(2, 1);
  auto& h2 = view.nodes["h2"];
  h2.cache_memory = 250; // one bundle of 200 bytes
  auto group = group_of("m", {0, 2}, 60), other = group_of("n", {0, 2}, 10);
  group.device = other.device = "h2/gpu0";
  device_capacity room{view, {}};
  CHECK(places_of("two_stage", room, {{&group, 0, 1}, {&other, 0, 1}}).size()
        == 1); // no host memory for both
  // the limit is the units
  CHECK(places_of("two_stage", room, {{&group, 0, 2}}).size() == 1);
  // A reservation that ends releases all its resources.
  CHECK(room == device_capacity{view, {}});
  h2.replicas.push_back(
    replica_on(group, h2, "gpu0", 1, replica_condition::starting));
  room.follow({"h2"}, {}, {});
  CHECK(room[1].units == 60);
  CHECK(places_of("two_stage", room, {{&other, 0, 1}}).empty());
  SUBCASE("failure") {
    h2.replicas[0].state = replica_condition::failed;
  }
  SUBCASE("eviction") {
    h2.replicas.clear();
  }
  room.follow({"h2"}, {}, {});
  CHECK(room[1].units == 0);
  CHECK(places_of("two_stage", room, {{&other, 0, 1}}).size() == 1);
}

TEST_CASE("FP-36: the replicas of a scale-up are placed in one decision with "
          "all groups of the model") {
  auto view = hosts_with_devices(4, 2);
  auto first = group_of("m", {0, 1}), second = group_of("m", {1, 2});
  device_capacity room{view, {}};
  // A host that the first group is placed on does not count as having the
  // model.
  CHECK(places_of("two_stage", room, {{&first, 0, 2}, {&second, 0, 2}})
        == names{"h1/gpu0", "h2/gpu0", "h3/gpu0", "h4/gpu0"});
  // In two decisions the second group would join the hosts of the first.
  capacity_reservation trial{room};
  auto policy = make_placement_policy({"two_stage", {}});
  std::array one{placement_request{&first, 0, 2}};
  CHECK((*policy)->place({}, one, trial).chosen.size() == 2);
  CHECK(places_of("two_stage", room, {{&second, 0, 2}})
        == names{"h1/gpu1", "h2/gpu1"});
}

TEST_CASE("FP-31: each placement policy places whole and partitioned replicas "
          "side by side and uses idle devices first") {
  for (auto& policy : placement_policies())
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      CAPTURE(policy.name);
      CAPTURE(seed);
      random_stream chance{seed};
      auto view = hosts_with_devices(1 + chance.below(4), 1 + chance.below(3));
      auto busy = group_of("n");
      for (auto& [name, node] : view.nodes)
        if (chance.below(3) == 0)
          node.replicas.push_back(
            replica_on(busy, node, "gpu0", 1, replica_condition::ready));
      device_capacity room{view, {}};
      auto whole = group_of("m"), first = group_of("m", {0, 1}),
           second = group_of("m", {1, 2});
      std::vector<placement_request> wanted{{&whole, 0, chance.below(2)},
                                            {&first, 0, 1 + chance.below(2)},
                                            {&second, 0, 1 + chance.below(2)}};
      auto chosen = places_of(policy.name, room, wanted);
      CHECK(chosen.size()
            == wanted[0].missing + wanted[1].missing + wanted[2].missing);
      std::map<std::string, size_t> parts_on;
      for (auto i = wanted[0].missing; i < chosen.size(); ++i)
        ++parts_on[chosen[i]];
      auto shared = std::any_of(parts_on.begin(), parts_on.end(),
                                [](auto& x) { return x.second > 1; });
      size_t idle = 0;
      for (size_t at = 0; at < room.size(); ++at)
        idle +=
          room[at].load == 0
          && std::count(chosen.begin(), chosen.end(),
                        room[at].node->node.name + "/" + room[at].device->id)
               == 0;
      CHECK((!shared || idle == 0));
    }
}

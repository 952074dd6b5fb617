// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/cluster_views.hpp"

using namespace millrace;
using namespace millrace::test::views;

TEST_CASE("FP-24: a ready part is completed on its device and ends once all "
          "parts are completed") {
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
  CHECK(begun.deploy[0].extends_replica == parts.deploy[0].replica);
  for (auto node : {"w2", "w3"})
    view.nodes[node].replicas[0].state = replica_condition::ready;
  CHECK(carry_out(view, {wanted}).deploy.size() == 2); // ready at once
  CHECK(count_copies(view, wanted).ready == 3);
  CHECK(is_idle(reconcile(view, {wanted}))); // the first one still loads
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

TEST_CASE("FP-24: a part is placed where a whole replica fits if possible and "
          "ends once enough copies are whole") {
  auto view = with_memory(3, 130);
  auto wanted = in_parts(2);
  view.nodes["w1"].devices[0].memory = {60};
  for (auto& x : carry_out(view, {wanted}).deploy)
    CHECK(x.node != "w1");
  view.nodes.erase("w3");
  carry_out(view, {wanted});
  auto plan = reconcile(view, {wanted});
  CHECK(plan.deploy.empty()); // only the part of w2 is completed
  CHECK(plan.notes["m"] == "no room for whole replicas where its parts are");
  CHECK(count_copies(view, wanted).ready == 2); // one whole, one in parts
  CHECK(carry_out(view, {wanted}).evict.size() == 2);
  CHECK(count_copies(view, wanted).ready == 1); // the wanted number
}

TEST_CASE(
  "placement: a model in parts has no ready copy while a part is missing") {
  auto view = with_memory(2, 60);
  auto wanted = in_parts(2);
  carry_out(view, {wanted});
  CHECK(count_copies(view, wanted).ready == 1);
  view.nodes.erase("w2");
  auto left = count_copies(view, wanted);
  CHECK(left.wanted == 1);
  CHECK(left.ready == 0);
}

TEST_CASE(
  "FP-24: the parts of an unwanted model and their completions are removed") {
  auto view = with_memory(2, 130);
  carry_out(view, {in_parts(2)});
  carry_out(view, {in_parts(2)}, replica_condition::starting);
  auto none = in_parts(2);
  none.replicas = 0;
  CHECK(carry_out(view, {none}).evict.size() == 4);
}

TEST_CASE("FP-24: after the loss of a node parts are replaced and surplus "
          "whole replicas are not") {
  auto view = with_memory(4, 130);
  auto wanted = in_parts(3);
  carry_out(view, {wanted});
  SUBCASE("all parts are being completed") {
    carry_out(view, {wanted}, replica_condition::starting);
    view.nodes.erase("w1");
    auto plan = carry_out(view, {wanted});
    REQUIRE(plan.deploy.size() == 1);
    CHECK(plan.deploy[0].node == "w4");
    CHECK(plan.deploy[0].layers != whole);
  }
  SUBCASE("some replicas are whole") {
    carry_out(view, {wanted});
    view.nodes["w3"].replicas[1].state = replica_condition::starting;
    view.nodes.erase("w1");
    auto plan = carry_out(view, {wanted});
    CHECK(plan.deploy.empty());
    // The pipeline is broken, so a device with a whole replica does not need
    // its part.
    REQUIRE(plan.evict.size() == 1);
    CHECK(plan.evict[0].node == "w2");
  }
  SUBCASE("all replicas are whole") {
    carry_out(view, {wanted});
    carry_out(view, {wanted});
    view.nodes.erase("w1");
    CHECK(is_idle(reconcile(view, {wanted})));
    view.nodes.erase("w2");
    view.nodes.erase("w3"); // the last copy: the model starts in parts again
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

TEST_CASE(
  "FP-24: parts on one device become as many whole replicas as are wanted") {
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

TEST_CASE("FP-24: a whole replica that returns with its node counts among the "
          "completed parts") {
  auto view = with_memory(3, 300);
  auto wanted = in_parts(2);
  carry_out(view, {wanted});
  carry_out(view, {wanted});
  carry_out(view, {wanted}); // two replicas are whole
  auto back = view.nodes.extract("w1");
  view.nodes.erase("w2");
  view.nodes["w2"] = with_memory(3, 300).nodes["w2"];
  auto parts = carry_out(view, {wanted}); // on the other two nodes
  REQUIRE(parts.deploy.size() == 2);
  carry_out(view, {wanted}, replica_condition::starting);
  view.nodes["w2"].replicas.at(1).state = replica_condition::ready;
  view.nodes.insert(std::move(back));
  CHECK(carry_out(view, {wanted}).deploy.empty()); // instead of w1's
  CHECK(is_idle(reconcile(view, {wanted})));
  CHECK(count_copies(view, wanted).ready == 2);
}

TEST_CASE("FP-24: each device with a part gets one whole replica in any order "
          "and more if the others have no room") {
  auto view = with_memory(3, 1000);
  auto wanted = in_parts(3);
  wanted.replicas = 2;
  uint64_t wholes = 3;
  SUBCASE("each device has room") {
  }
  SUBCASE("only one device has room") {
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

TEST_CASE("FP-24: once enough copies are whole no part is placed or moved") {
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

TEST_CASE("FP-24: parts are ready without a warm-up and their completions are "
          "warmed up") {
  auto view = with_memory(3, 130);
  auto parts = carry_out(view, {in_parts(3)});
  for (auto& x : parts.deploy)
    CHECK(x.skip_warm_up);
  auto wholes = reconcile(view, {in_parts(3)});
  REQUIRE(wholes.deploy.size() == 3);
  for (auto& x : wholes.deploy)
    CHECK_FALSE(x.skip_warm_up);
}

TEST_CASE("FP-32: a part leaves a device it shares once another device is idle "
          "and moves only once") {
  auto view = with_memory(3, 1000);
  auto wanted = in_parts(3);
  wanted.complete = false;
  carry_out(view, {wanted});
  auto w3 = view.nodes["w3"];
  view.nodes.erase("w3");
  carry_out(view, {wanted}); // its part goes to a device that has another part
  w3.replicas.clear();
  view.nodes["w3"] = w3;
  auto moved = carry_out(view, {wanted}, replica_condition::starting);
  REQUIRE(moved.deploy.size() == 1);
  CHECK(moved.deploy[0].node == "w3");
  CHECK(moved.evict.empty());
  CHECK(is_idle(reconcile(view, {wanted}))); // until the new part is ready
  view.nodes["w3"].replicas[0].state = replica_condition::ready;
  CHECK(carry_out(view, {wanted}).evict.size() == 1);
  for (auto& [name, node] : view.nodes)
    CHECK(node.replicas.size() == 1);
  CHECK(is_idle(reconcile(view, {wanted})));
}

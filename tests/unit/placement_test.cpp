// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>

#include "tests/support/cluster_views.hpp"

using namespace millrace;
using namespace millrace::test::views;

TEST_CASE("placement: missing replicas are placed on the emptiest devices") {
  auto view = workers(3);
  auto plan = settle(view, {want(3)});
  REQUIRE(plan.deploy.size() == 3);
  CHECK(plan.deploy[0].replica == "m.1.1");
  CHECK(plan.deploy[0].node == "w1");
  CHECK(plan.deploy[2].node == "w3");
  CHECK(settle(view, {want(3)}).deploy.empty());
}

TEST_CASE("placement: surplus replicas are evicted from the fullest device "
          "with the newest first") {
  auto view = workers(2);
  settle(view, {want(3)});
  auto plan = settle(view, {want(1)});
  REQUIRE(plan.evict.size() == 2);
  CHECK(plan.evict[0].replica == "m.1.3");
  CHECK(plan.evict[1].replica == "m.1.2");
}

TEST_CASE("placement: replicas on one node are spread when a node joins") {
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

TEST_CASE("placement: a surplus replica serves until enough others are ready") {
  auto view = workers(1);
  settle(view, {want(2)});
  view.nodes["w2"] = workers(2).nodes["w2"];
  REQUIRE(settle(view, {want(2)}).deploy.size() == 1);
  auto& fresh = view.nodes["w2"].replicas.at(0).state;
  fresh = replica_condition::starting;
  CHECK(settle(view, {want(2)}).evict.empty());
  SUBCASE("the new replica is ready") {
    fresh = replica_condition::ready;
    auto plan = settle(view, {want(2)});
    REQUIRE(plan.evict.size() == 1);
    CHECK(plan.evict[0].node == "w1");
  }
  SUBCASE("a replica that is not ready is evicted first") {
    CHECK(settle(view, {want(1)}).evict.size() == 2);
    CHECK(view.nodes["w1"].replicas.size() == 1);
  }
}

TEST_CASE("placement: an unwanted model is evicted") {
  auto view = workers(1);
  settle(view, {want(1)});
  CHECK(settle(view, {}).evict.size() == 1);
}

TEST_CASE("placement: a new version is ready before the old one is evicted") {
  auto view = workers(2, {1, 2});
  settle(view, {want(1, "1")});
  auto first = settle(view, {want(1, "2")});
  CHECK(first.deploy.size() == 1);
  CHECK(first.evict.empty());
  auto second = settle(view, {want(1, "2")});
  REQUIRE(second.evict.size() == 1);
  CHECK(second.evict[0].replica == "m.1.1");
}

TEST_CASE("placement: a new batch size adjusts a replica and one beyond its "
          "loaded rows replaces it") {
  auto view = workers(1);
  settle(view, {want(1)});
  auto other = want(1);
  other.policy.batch = 8;
  other.policy.queue = 9;
  auto first = settle(view, {other});
  CHECK(first.deploy.empty());
  CHECK(first.evict.empty());
  REQUIRE(first.adjust.size() == 1);
  CHECK(first.adjust[0].tuned.batch == 8);
  CHECK(first.adjust[0].policy.queue == 9);
  CHECK(is_idle(settle(view, {other})));
  other.policy.batch = 65;
  auto second = settle(view, {other});
  REQUIRE(second.deploy.size() == 1);
  CHECK(second.deploy[0].batch_max == 65);
  CHECK(second.evict.empty());
  CHECK(settle(view, {other}).evict.size() == 1);
  CHECK(is_idle(settle(view, {other})));
}

TEST_CASE(
  "placement: a draining node gets no replicas and its replicas do not count") {
  auto view = workers(2);
  settle(view, {want(2)});
  view.nodes["w1"].draining = true;
  auto plan = settle(view, {want(2)});
  REQUIRE(plan.deploy.size() == 1);
  CHECK(plan.deploy[0].node == "w2");
  CHECK(plan.deploy[0].replica == "m.1.3");
}

TEST_CASE("placement: a device without room gets no replica and a note gives "
          "the reason") {
  auto view = workers(1);
  view.nodes["w1"].devices[0].memory = {150};
  auto plan = settle(view, {want(2)});
  CHECK(plan.deploy.size() == 1);
  CHECK(plan.notes["m"]
        == "no device has room (asked 100 B, free 50 B at most, on w1/cpu0)");
}

TEST_CASE("I12: a replica that starts or drains counts with its memory") {
  auto view = workers(1);
  view.nodes["w1"].devices[0].memory = {150};
  REQUIRE(settle(view, {want(1)}).deploy.size() == 1);
  for (auto state :
       {replica_condition::starting, replica_condition::draining}) {
    auto& there = view.nodes["w1"].replicas[0];
    there.state = state;
    there.memory = 0; // not known yet
    CHECK(reconcile(view, {want(2)}).deploy.empty());
  }
  view.nodes["w1"].replicas[0].state = replica_condition::failed;
  CHECK(reconcile(view, {want(1)}).deploy.size() == 1);
}

TEST_CASE("placement: a model without a bundle of its version is not placed") {
  auto view = workers(1);
  auto plan = reconcile(view, {want(1, "9")});
  CHECK(plan.deploy.empty());
  CHECK(plan.notes["m"]
        == "no node has a bundle of version '9'; there is 1 (default)");
  auto other = want(1);
  other.model = "typo";
  CHECK(reconcile(view, {other}).notes["typo"]
        == "no node has a bundle of the model");
  CHECK(reconcile(workers(0), {want(1)}).notes["m"] == "no worker has joined");
}

TEST_CASE("placement: thousands of replicas are planned in one decision") {
  auto plan = reconcile(workers(2), {want(10'000)});
  CHECK(plan.deploy.size() == 10'000);
  CHECK(plan.deploy.back().replica == "m.1.10000");
}

TEST_CASE("placement: the device of a model is an id or a kind") {
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

TEST_CASE("placement: the number of a replica is never reused") {
  auto view = with_memory(2, 1000);
  auto first = carry_out(view, {want(2)});
  REQUIRE(first.deploy.size() == 2);
  for (auto& x : first.deploy)
    view.numbers.add(x.replica);
  view.nodes["w1"].replicas.clear(); // lost and forgotten
  auto second = carry_out(view, {want(2)});
  REQUIRE(second.deploy.size() == 1);
  CHECK(second.deploy[0].replica == "m.1.3");
  CHECK(number_of("m.1.3") == 3);
}

TEST_CASE("placement: a plan gives the reason why a model cannot be served") {
  auto view = with_memory(1, 1000);
  auto plan = reconcile(view, {in_parts(99)});
  CHECK(plan.serve.size() == 1);
  CHECK(plan.notes["m"] == "it has 12 layers, and cannot be cut into 99 parts");
}

TEST_CASE(
  "placement: surplus copies are evicted for a model without any copy") {
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

TEST_CASE("FP-37: a worker that can fetch a bundle from another may serve it") {
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
        // the bundle has no content id, so it cannot be fetched
        == std::map<std::string, size_t>{{"w1", 2}});
  view.nodes["w1"].models[0].content = "c0ffee";
  CHECK(placed() == std::map<std::string, size_t>{{"w1", 1}, {"w2", 1}});
  for (auto& x : reconcile(view, {want(2)}).deploy) {
    CHECK(x.content == "c0ffee");
    CHECK(x.bytes == 100);
  }
}

namespace {

/// A cluster without the model on any disk: w1 and w2 have these versions in
/// the disk cache.
cluster_view kept_only(std::vector<uint64_t> versions) {
  auto view = workers(3, std::move(versions));
  for (auto& [name, node] : view.nodes) {
    for (auto& x : node.models)
      x.content = "c" + std::to_string(x.version);
    node.fetches = true;
    std::swap(node.models, node.kept);
  }
  view.nodes["w3"].kept.clear();
  return view;
}

uint64_t version_of(const cluster_view& view, const std::string& asked = "") {
  return resolve_version(view, want(1, asked));
}

} // namespace

TEST_CASE("I19, FP-41: a model that is on no disk is served from disk caches "
          "and fetched from there") {
  auto view = kept_only({1});
  auto plan = reconcile(view, {want(3)});
  REQUIRE(plan.deploy.size() == 3);
  for (auto& x : plan.deploy)
    CHECK(x.content == "c1");
  CHECK(plan.notes.empty());
}

TEST_CASE(
  "QU-43: a content on a disk precedes an older content in disk caches") {
  auto view = workers(3);
  for (auto& [name, node] : view.nodes)
    node.fetches = true;
  for (std::string old : {"w1", "w3"}) {
    auto& node = view.nodes[old];
    node.models[0].content = "before";
    std::swap(node.models, node.kept);
  }
  view.nodes["w2"].models[0].content = "now";
  for (auto& x : reconcile(view, {want(3)}).deploy)
    CHECK(x.content == "now");
}

TEST_CASE("placement: among cached versions the serving one is used or else "
          "the newest and a version on a disk precedes both") {
  auto view = kept_only({1, 2});
  CHECK(version_of(view) == 2);
  CHECK(version_of(view, "1") == 1);
  CHECK(version_of(view, "3") == 0);
  CHECK(version_of(view, "canary") == 0); // the alias is unknown
  carry_out(view, {want(1, "1")});
  CHECK(version_of(view) == 1);
  auto on_disk = view.nodes["w1"].kept.back();
  REQUIRE(on_disk.version == 2);
  view.nodes["w3"].models = {on_disk};
  CHECK(version_of(view) == 2);
  CHECK(version_of(view, "1") == 0); // version 1 was removed from the disks
}

TEST_CASE(
  "placement: a replica skips its warm-up only if no other replica serves") {
  auto view = workers(2, {1, 2});
  auto first = carry_out(view, {want(2, "1")}, replica_condition::starting);
  REQUIRE(first.deploy.size() == 2);
  CHECK(first.deploy[0].skip_warm_up);
  CHECK_FALSE(first.deploy[1].skip_warm_up); // the first replica will serve
  auto early = carry_out(view, {want(3, "1")}, replica_condition::starting);
  REQUIRE(early.deploy.size() == 1);
  CHECK_FALSE(early.deploy[0].skip_warm_up);
  view.nodes["w1"].replicas[0].state = replica_condition::ready;
  auto more = carry_out(view, {want(4, "1")}, replica_condition::starting);
  REQUIRE(more.deploy.size() == 1);
  CHECK_FALSE(more.deploy[0].skip_warm_up);
  auto other = reconcile(view, {want(1, "2")});
  REQUIRE(other.deploy.size() == 1);
  CHECK_FALSE(other.deploy[0].skip_warm_up); // the old version serves meanwhile
}

TEST_CASE(
  "placement: a bundle to be fetched goes only to nodes with memory for it") {
  auto view = workers(4);
  for (auto& [name, node] : view.nodes) {
    node.fetches = true;
    node.models[0].content = "content";
    if (name != "w1")
      node.models.clear();
  }
  auto other = view.nodes["w1"].models[0];
  other.model = other.content = "other";
  view.nodes["w1"].models.push_back(other);
  view.nodes["w1"].devices.clear();
  view.nodes["w2"].cache_memory = 99;  // 100 are needed
  view.nodes["w3"].cache_memory = 150; // room for one of the two
  view.nodes["w4"].cache_memory = 200;
  auto of_other = want(2);
  of_other.model = "other";
  auto plan = settle(view, {want(2), of_other});
  std::multiset<std::string> there;
  for (auto& x : plan.deploy)
    there.insert(x.model + " on " + x.node);
  CHECK(there
        == std::multiset<std::string>{"m on w3", "m on w4", "other on w4",
                                      "other on w4"});
  // A bundle that is present is shared.
  plan = settle(view, {want(4), of_other});
  CHECK(plan.deploy.size() == 2);
  for (auto& node : {"w3", "w4"})
    view.nodes[node].cache_memory = 99;
  of_other.replicas = 0;
  view.nodes["w3"].replicas.clear();
  view.nodes["w4"].replicas.clear();
  plan = reconcile(view, {want(1)});
  CHECK(plan.deploy.empty());
  CHECK(plan.notes["m"]
        == "no node has memory to fetch the 100 B of the bundle: nodes have"
           " 99 B at most");
  // A node whose memory is in use is not eligible either.
  view.nodes["w4"].cache_memory = 150;
  view.nodes["w4"].held = {{"of its own", 100, false, true}};
  CHECK(reconcile(view, {want(1)}).deploy.empty());
  view.nodes["w4"].held[0].last = false;
  CHECK(reconcile(view, {want(1)}).deploy.size() == 1);
  view.nodes["w4"].cache_memory = 99;
  // A bundle in the disk cache needs no fetch.
  view.nodes["w4"].kept = {view.nodes["w1"].models[0]};
  plan = reconcile(view, {want(1)});
  REQUIRE(plan.deploy.size() == 1);
  CHECK(plan.deploy[0].node == "w4");
}

namespace {

/// A node with the bundles of models m, in parts that become whole replicas,
/// and n. Three workers have memory for one of the two, and each has a whole
/// replica of m.
cluster_view full_of_spares() {
  auto out = with_memory(4, 1000);
  auto& source = out.nodes["w1"];
  source.models[0].content = "of m";
  source.models.push_back(source.models[0]);
  source.models[1].model = "n";
  source.models[1].content = "of n";
  source.devices.clear();
  for (auto& [name, node] : out.nodes)
    if (name != "w1") {
      node.fetches = true;
      node.models.clear();
    }
  for (int i = 0; i < 12; ++i)
    settle(out, {in_parts(3)});
  for (auto& [name, node] : out.nodes)
    if (name != "w1") {
      node.cache_memory = 200;
      node.held = {{"of m", 120, true, false}};
    }
  return out;
}

} // namespace

TEST_CASE("placement: spare replicas are evicted for another model and no "
          "further ones while they drain") {
  auto view = full_of_spares();
  auto n = want(1);
  n.model = "n";
  std::vector<model_settings> wanted{in_parts(3), n};
  auto plan = reconcile(view, wanted);
  CHECK(plan.deploy.empty());
  REQUIRE(plan.evict.size() == 1);
  auto& node = view.nodes[plan.evict[0].node];
  REQUIRE(node.replicas.size() == 1);
  node.replicas[0].state = replica_condition::draining;
  plan = reconcile(view, wanted);
  CHECK(is_idle(plan)); // it still holds its memory
  node.replicas.clear();
  node.held[0].used = false;
  plan = reconcile(view, wanted);
  CHECK(plan.evict.empty());
  REQUIRE(plan.deploy.size() == 1);
  CHECK(plan.deploy[0].node == node.node.name);
  CHECK(plan.deploy[0].model == "n");
}

TEST_CASE("placement: no replica is evicted for memory that its eviction does "
          "not free") {
  auto view = full_of_spares();
  for (auto& [name, node] : view.nodes)
    for (auto& x : node.held)
      x.last = true;
  auto n = want(1);
  n.model = "n";
  auto plan = reconcile(view, {in_parts(3), n});
  CHECK(is_idle(plan));
  CHECK(plan.notes["n"].starts_with("no node has memory to fetch the 120 B"));
}

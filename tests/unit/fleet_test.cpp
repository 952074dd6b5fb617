// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "actors/policies/scale/fixed.hpp"
#include "actors/policies/scale/machines.hpp"
#include "actors/provider/fleet.hpp"

using namespace millrace;

namespace {

using fleet = std::map<std::string, fleet_machine>;
using pool_map = std::map<std::string, fleet_pool>;

pool_map pool_of_three(std::optional<uint64_t> wanted, uint64_t least = 0,
                       uint64_t most = 0) {
  fleet_pool x;
  x.settings.boot = 30s;
  x.settings.patience = 10s;
  x.settings.drain = 20s;
  x.settings.least = least;
  x.settings.most = most;
  x.machines = {"m1", "m2", "m3"};
  x.wanted = wanted;
  return {{"p", x}};
}

fleet_machine machine_in(machine_condition condition, bool joined = false) {
  fleet_machine out;
  out.pool = "p";
  out.condition = condition;
  out.joined = joined;
  return out;
}

/// The steps as a text like "m1 requested, m2 draining".
std::string steps_text(const pool_map& pools, const fleet& machines,
                       microseconds now = 0s) {
  std::string out;
  for (auto& x : next_steps(pools, machines, now))
    out += (out.empty() ? "" : ", ") + x.machine + " "
           + std::string{to_string(x.to)};
  return out;
}

using enum machine_condition;

} // namespace

TEST_CASE("fleet: machines are requested by name up to the wanted number") {
  CHECK(steps_text(pool_of_three(2), {}) == "m1 requested, m2 requested");
  CHECK(steps_text(pool_of_three(2), {{"m1", machine_in(booting)}})
        == "m2 requested");
  CHECK(steps_text(pool_of_three(2), {{"m1", machine_in(requested)},
                                      {"m2", machine_in(ready, true)}})
        == "");
  CHECK(steps_text(pool_of_three(0), {}) == "");
}

TEST_CASE("fleet: before a decision of the scope no machine is released and "
          "the minimum is requested") {
  CHECK(steps_text(pool_of_three({}), {{"m1", machine_in(ready, true)}}) == "");
  CHECK(steps_text(pool_of_three({}, 2), {{"m1", machine_in(ready, true)}})
        == "m2 requested");
  CHECK(steps_text(pool_of_three(0, 1), {{"m1", machine_in(ready, true)}})
        == "");
}

TEST_CASE("fleet: a draining machine counts towards the maximum") {
  CHECK(steps_text(pool_of_three(3, 0, 2), {{"m1", machine_in(ready, true)}})
        == "m2 requested");
  auto leaving = machine_in(draining);
  leaving.replaced = false;
  CHECK(steps_text(pool_of_three(2, 0, 2),
                   {{"m1", machine_in(ready, true)}, {"m2", leaving}})
        == "");
}

TEST_CASE("fleet: booting machines drain first and then those with the fewest "
          "replicas") {
  auto busy = machine_in(ready, true), idle = machine_in(ready, true);
  busy.replicas = 2;
  CHECK(steps_text(pool_of_three(1), {{"m1", idle}, {"m2", busy}})
        == "m1 draining");
  CHECK(
    steps_text(pool_of_three(1), {{"m1", idle}, {"m2", machine_in(booting)}})
    == "m2 draining");
}

TEST_CASE("fleet: a machine is ready while its node is connected") {
  CHECK(steps_text(pool_of_three(1), {{"m1", machine_in(booting, true)}})
        == "m1 ready");
  CHECK(steps_text(pool_of_three(1), {{"m1", machine_in(ready)}})
        == "m1 booting");
}

TEST_CASE("fleet: a machine without a node is given up after boot and patience "
          "or after patience if it was lost") {
  fleet booting_one{{"m1", machine_in(booting)}};
  CHECK(steps_text(pool_of_three(1), booting_one, 39s) == "");
  CHECK(next_due(pool_of_three(1), booting_one) == 40s);
  CHECK(steps_text(pool_of_three(1), booting_one, 40s)
        == "m1 draining, m2 requested");
  booting_one["m1"].booted = true;
  CHECK(steps_text(pool_of_three(1), booting_one, 10s)
        == "m1 draining, m2 requested");
}

TEST_CASE("fleet: a draining machine is released when its replicas are ready "
          "elsewhere or after the drain time") {
  auto x = machine_in(draining, true);
  CHECK(steps_text(pool_of_three(0), {{"m1", x}}) == "m1 released");
  x.replaced = false;
  CHECK(steps_text(pool_of_three(0), {{"m1", x}}, 19s) == "");
  CHECK(next_due(pool_of_three(0), {{"m1", x}}) == 20s);
  CHECK(steps_text(pool_of_three(0), {{"m1", x}}, 20s) == "m1 released");
}

TEST_CASE(
  "fleet: a machine gets no step while its ledger entry is being written") {
  auto x = machine_in(booting, true);
  x.changes = true;
  CHECK(steps_text(pool_of_three(1), {{"m1", x}}) == "");
}

// -- number of machines -------------------------------------------------------

namespace {

/// A scope with pool p. Each machine of the pool has two devices "small"; a
/// host outside the pool has one.
cluster_snapshot snapshot_with_pool(uint64_t replicas_of_device = 1) {
  cluster_snapshot out;
  out.at = 1min;
  scope_state scope;
  scope.settings.pool = "p";
  out.scopes["s"] = std::make_shared<const scope_state>(scope);
  pool_state pool;
  pool.settings.most = 10;
  pool.settings.idle = 10s;
  pool.settings.replicas = replicas_of_device;
  pool.devices = {{"small.0", "small", 1, {}}, {"small.1", "small", 1, {}}};
  out.pools["p"] = std::make_shared<const pool_state>(pool);
  node_state base;
  base.node.name = "base";
  base.devices = {{"small.0", "small", 1, {}}};
  out.nodes["base"] = std::make_shared<const node_state>(base);
  return out;
}

proposal wants_replicas(uint64_t count, const std::string& device = "") {
  proposal out;
  out.scope = "s";
  replica_group g;
  g.model = "m";
  g.count = count;
  g.device = device;
  out.groups.push_back(g);
  return out;
}

/// A policy that always proposes `count` replicas.
class wants_always : public scaling_policy {
public:
  explicit wants_always(uint64_t count) : count_(count) {}
  proposal propose(const cluster_snapshot&, policy_memory&, random_stream&,
                   timestamp) const override {
    return wants_replicas(count_);
  }
  timestamp next_due(const policy_memory&, timestamp) const override {
    return far_future;
  }

private:
  uint64_t count_;
};

} // namespace

TEST_CASE("machines: the pool has as many as the replicas need beyond the "
          "hosts outside the pool") {
  auto in = snapshot_with_pool();
  struct row {
    uint64_t replicas, machines;
  };
  for (auto x :
       {row{0, 0}, row{1, 0}, row{2, 1}, row{3, 1}, row{4, 2}, row{7, 3}}) {
    CAPTURE(x.replicas);
    CHECK(machines_needed(in, "p", wants_replicas(x.replicas)) == x.machines);
  }
  CHECK(machines_needed(snapshot_with_pool(2), "p", wants_replicas(6)) == 1);
}

TEST_CASE("machines: devices that the groups do not name and devices of other "
          "scopes are not free") {
  auto in = snapshot_with_pool();
  CHECK(machines_needed(in, "p", wants_replicas(1, "large")) == 0);
  CHECK(machines_needed(in, "p", wants_replicas(2, "small")) == 1);
  auto base = *in.nodes.at("base");
  replica_status other;
  other.what.model = "other";
  other.what.device = "small.0";
  base.replicas.push_back(other);
  in.nodes["base"] = std::make_shared<const node_state>(base);
  CHECK(machines_needed(in, "p", wants_replicas(1)) == 1);
}

TEST_CASE("machines: the number falls only after the idle time and to the "
          "maximum needed meanwhile") {
  auto in = snapshot_with_pool();
  for (auto* name : {"m1", "m2", "m3"})
    in.machines[name] = std::make_shared<const machine_state>(
      machine_state{"p", machine_condition::ready});
  policy_memory memory;
  random_stream random{1};
  auto at = [&](uint64_t replicas, seconds when) {
    wants_always policy{replicas};
    auto x = propose_with_machines(policy, "s", in, memory, random,
                                   timestamp{} + when);
    REQUIRE(x.machines.size() == 1);
    CHECK(x.machines[0].pool == "p");
    return x.machines[0].count;
  };
  CHECK(at(1, 1s) == 3);
  CHECK(at(2, 5s) == 3);
  CHECK(at(1, 10s) == 3);
  CHECK(at(1, 11s) == 1);
  CHECK(at(9, 12s) == 4); // a rise takes effect at once
  CHECK(at(1, 13s) == 3);
  CHECK(at(1, 22s) == 3);
  CHECK(at(1, 23s) == 0);
}

TEST_CASE(
  "machines: no number is proposed before the nodes have had time to join") {
  auto in = snapshot_with_pool();
  in.at = 2s;
  policy_memory memory;
  random_stream random{1};
  wants_always policy{9};
  CHECK(propose_with_machines(policy, "s", in, memory, random, {})
          .machines.empty());
}

TEST_CASE("machines: the numbers of a policy that proposes machines itself are "
          "not changed") {
  class asks : public wants_always {
  public:
    asks() : wants_always(9) {}
    proposal propose(const cluster_snapshot& in, policy_memory& memory,
                     random_stream& random, timestamp now) const override {
      auto out = wants_always::propose(in, memory, random, now);
      out.machines = {{"p", 2}};
      return out;
    }
  };
  policy_memory memory;
  random_stream random{1};
  auto x = propose_with_machines(asks{}, "s", snapshot_with_pool(), memory,
                                 random, {});
  CHECK(x.machines == std::vector{machine_count{"p", 2}});
}

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "actors/placement/start_log.hpp"

using namespace millrace;

namespace {

const timestamp decided_at = timestamp{} + 1h;

assignment copy_of(const std::string& replica, const std::string& node) {
  assignment out;
  out.replica = replica;
  out.node = node;
  return out;
}

/// The inventory of a node with one replica, or with none if the name is empty.
node_state says(const std::string& node, const std::string& replica = {},
                replica_condition state = replica_condition::starting) {
  node_state out;
  out.node.name = node;
  if (replica.empty())
    return out;
  replica_status x;
  x.what = copy_of(replica, node);
  x.state = state;
  out.replicas.push_back(x);
  return out;
}

} // namespace

TEST_CASE(
  "start_log: times count from the decision and the latest start comes first") {
  start_log x;
  x.add(copy_of("a", "w1"), decided_at);
  x.on_inventory(says("w1"), decided_at + 1ms); // before the order arrived
  x.add(copy_of("b", "w2"), decided_at + 1s);
  x.on_inventory(says("w1", "a"), decided_at + 2ms);
  x.on_inventory(says("w1", "a"), decided_at + 20ms);
  x.on_inventory(says("w2", "a", replica_condition::ready), decided_at + 30ms);
  CHECK(x.begun("a") == decided_at);
  x.on_inventory(says("w1", "a", replica_condition::ready), decided_at + 50ms);
  CHECK_FALSE(x.begun("a")); // the replica is ready
  x.on_inventory(says("w1", "a", replica_condition::ready), decided_at + 70ms);
  x.on_inventory(says("w1"), decided_at + 90ms);
  auto all = x.list(decided_at + 2s);
  REQUIRE(all.size() == 2);
  CHECK(all[0].how.what.replica == "b");
  CHECK(all[0].ago == 1s);
  CHECK(all[0].ready == 0us);
  CHECK(all[1].ago == 2s);
  CHECK(all[1].order == 2ms);
  CHECK(all[1].ready == 50ms);
  CHECK(all[1].how.state == replica_condition::ready);
}

TEST_CASE("start_log: a replica that does not become ready has a reason") {
  start_log x;
  x.add(copy_of("a", "w1"), decided_at);
  x.add(copy_of("b", "w2"), decided_at);
  x.on_inventory(says("w1", "a"), decided_at + 1ms);
  x.on_inventory(says("w1", "a", replica_condition::draining),
                 decided_at + 2ms);
  x.on_inventory(says("w1"), decided_at + 3ms);
  x.on_lost("w2");
  auto all = x.list(decided_at + 1s);
  REQUIRE(all.size() == 2);
  CHECK(all[0].how.state == replica_condition::failed);
  CHECK(all[1].how.state == replica_condition::draining);
  CHECK(all[0].how.reason == "its node was lost");
  CHECK_FALSE(x.has_failed("b")); // no node reported it
  x.add(copy_of("c", "w1"), decided_at);
  for (auto how : {replica_condition::starting, replica_condition::failed}) {
    CHECK_FALSE(x.has_failed("c"));
    x.on_inventory(says("w1", "c", how), decided_at + 4ms);
  }
  CHECK(x.has_failed("c"));
  CHECK(all[1].how.reason == "evicted before it was ready");
}

TEST_CASE("start_log: the oldest starts are dropped") {
  start_log x;
  for (size_t i = 0; i <= start_log::most; ++i)
    x.add(copy_of(std::to_string(i), "w"), decided_at);
  auto all = x.list(decided_at);
  CHECK(all.size() == start_log::most);
  CHECK(all.back().how.what.replica == "1");
}

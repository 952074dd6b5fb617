// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/parts.hpp"

/// \file
/// Cancelled and expired requests.

using namespace millrace;
using namespace millrace::test;

namespace {

model_settings one_a_batch() {
  auto out = want(1);
  out.policy.batch = 1;
  return out;
}

} // namespace

TEST_CASE("gateway: a cancelled request gets exactly one answer with status"
          " cancelled") {
  virtual_cluster c{1, want(1), ten_ms};
  c.request(1);
  c.advance(2ms);
  c.cancel(1);
  c.advance(100ms);
  CHECK(c.answers() == counts{{ec::cancelled, 1}});
}

TEST_CASE("I6: the requests of a client are cancelled when the client"
          " disconnects") {
  virtual_cluster c{1, one_a_batch(), ten_ms};
  for (uint64_t i = 1; i <= 10; ++i)
    c.request(i);
  c.request(11, c.ask(), 10s, "another");
  c.drain();
  c.tell("./gateway", client_left{{0, "client"}});
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::cancelled, 10}, {ec::ok, 1}});
  CHECK(c.executions == 2); // the running one and the last
}

TEST_CASE("executor: a request cancelled or past its deadline before its turn"
          " is not run and delays no other request") {
  virtual_cluster c{1, one_a_batch(), ten_ms};
  c.request(1);
  SUBCASE("cancelled") {
    c.request(2);
    c.advance(2ms);
    c.cancel(2);
    c.advance(9ms);
    CHECK(c.answers() == counts{{ec::ok, 1}, {ec::cancelled, 1}});
  }
  SUBCASE("past its deadline") {
    c.request(2, c.ask(), 5ms);
    c.advance(11ms);
    CHECK(c.answers() == counts{{ec::ok, 1}, {ec::deadline_exceeded, 1}});
  }
  c.request(3);
  c.advance(11ms);
  CHECK(c.replies[3].at(0).status == ec::ok);
  CHECK(c.executions == 2);
  for (uint64_t id = 4; id <= 20; ++id) // its credit returns
    c.request(id);
  c.advance(1s);
  CHECK(c.answers()[ec::ok] == 19);
}

TEST_CASE("monitor: a device reports the run time of a batch after its deadline"
          " or cancellation") {
  virtual_cluster c{1, one_a_batch(), {50ms, 60s}};
  auto overdue = [&] {
    auto x = c.ask_actor<node_load, monitor_actor>("w1/monitor", get_load{});
    REQUIRE(x);
    return x->devices.at(0).overdue;
  };
  c.request(1, c.ask(), 10s);
  SUBCASE("after its deadline") {
    c.advance(9s);
    CHECK(overdue() == 0us);
    c.advance(10s);
  }
  SUBCASE("after it was cancelled") {
    c.cancel(1);
    c.advance(9s);
  }
  CHECK(overdue() >= 7s);
  CHECK(overdue() <= 9s);
  c.advance(1min);
  CHECK(overdue() == 0us);
}

TEST_CASE("monitor: a batch that waits behind a long batch does not count as"
          " overdue") {
  auto wanted = one_a_batch();
  wanted.policy.overlap = 2;
  virtual_cluster c{1, wanted, {50ms, 60s}};
  c.request(1, c.ask(), 100s);
  c.request(2, c.ask(), 1s);
  c.advance(20s);
  auto x = c.ask_actor<node_load, monitor_actor>("w1/monitor", get_load{});
  REQUIRE(x);
  CHECK(x->devices.at(0).running > 0);
  CHECK(x->devices.at(0).overdue == 0us);
}

TEST_CASE("P15: ends of a process caused by slow requests do not quarantine the"
          " model") {
  for (bool excused : {true, false}) {
    CAPTURE(excused);
    virtual_cluster c{1, one_a_batch(), ten_ms};
    for (size_t ends = 0; ends < 4; c.advance(10ms))
      for (auto& r : queue_of(c).replicas)
        if (!r.draining) {
          tell_replica(c, r.replica, stage_lost{0, "test", excused});
          ++ends;
        }
    c.request(1);
    c.advance(500ms); // shortly after four ends of the process
    CHECK(c.answers() == counts{{excused ? ec::ok : ec::unavailable, 1}});
  }
}

TEST_CASE("executor: requests of a lost gateway are not started") {
  virtual_cluster c{1, one_a_batch(), ten_ms};
  for (uint64_t id = 1; id <= 3; ++id)
    c.request(id);
  c.drain();
  c.kill("front");
  c.advance(1s);
  CHECK(c.executions == 1); // the one that ran already
}

TEST_CASE("replica: a batch is run if at least one of its requests is not"
          " cancelled") {
  auto wanted = want(1);
  wanted.policy.batch = 2;
  wanted.policy.batch_delay = 1ms;
  virtual_cluster c{1, wanted, ten_ms};
  for (uint64_t id = 1; id <= 4; ++id)
    c.request(id);
  c.advance(2ms);
  c.cancel(3);
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 3}, {ec::cancelled, 1}});
  CHECK(c.executions == 4);
}

TEST_CASE("P1: a request cancelled or past its deadline between two stages is"
          " not run by the next stage") {
  virtual_cluster c{2, in_parts(2), ten_ms};
  auto nodes = nodes_of(c, 2);
  REQUIRE(nodes.size() == 2);
  SUBCASE("cancelled") {
    c.request(1, marked(c, 1));
    c.advance(2ms);
    c.cancel(1);
    c.advance(20ms);
    CHECK(c.answers() == counts{{ec::cancelled, 1}});
  }
  SUBCASE("past its deadline") {
    c.request(1, marked(c, 1), 4ms);
    c.advance(20ms);
    CHECK(c.answers() == counts{{ec::deadline_exceeded, 1}});
  }
  CHECK(c.executed_on[nodes[0]] == 1);
  CHECK(c.executed_on[nodes[1]] == 0);
  c.replies.clear();
  send(c, 2, 21); // its credit returns
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 20}});
  CHECK(queue_of(c).running == 0);
}

TEST_CASE("P1: a request cancelled while it waits at the last stage is not run"
          " there") {
  virtual_cluster c{2, in_parts(2), ten_ms};
  auto nodes = nodes_of(c, 2);
  REQUIRE(nodes.size() == 2);
  send(c, 1, 4);
  c.advance(11ms); // the second request is at the last stage
  c.node(nodes[1]).pause();
  c.advance(15ms); // the others are in transit to the last stage
  c.node(nodes[1]).resume();
  c.advance(1ms);
  c.cancel(4); // request 4 waits behind request 3
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 3}, {ec::cancelled, 1}});
  CHECK(c.executed_on[nodes[0]] == 4);
  CHECK(c.executed_on[nodes[1]] == 3);
}

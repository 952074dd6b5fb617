// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/parts.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// The newest stored request of the gateway, or the request with number
/// `which`.
request_story story(virtual_cluster& c, const std::string& which = {}) {
  auto all =
    c.ask_actor<request_list, gateway_actor>("./gateway", get_requests{which});
  REQUIRE(all);
  REQUIRE(!all->requests.empty());
  return all->requests[0];
}

/// A cluster of two workers with one part each. Each part takes 5 ms.
struct two_stages : virtual_cluster {
  two_stages() : virtual_cluster{2, in_parts(2), ten_ms} {
    at = nodes_of(*this, 2);
    REQUIRE(at.size() == 2);
    for (auto& [name, first] : first_layers(*this, 2))
      replicas[first == 0 ? 0 : 1] = name;
  }
  std::vector<std::string> at;
  std::array<std::string, 2> replicas;
};

/// Compares times that were rounded. Messages take no time.
bool is_about(microseconds x, microseconds expected) {
  return std::chrono::abs(x - expected) <= 10us;
}

} // namespace

TEST_CASE("explain: an open request lists its current stage and the time in"
          " each stage before") {
  two_stages c;
  c.request(1, marked(c, 1));
  c.request(2, marked(c, 2));
  c.advance(7ms);
  auto first = story(c, "1");
  CHECK(first.open);
  CHECK(first.attempts == 1);
  CHECK(first.queue == 0us);
  REQUIRE(first.stays.size() == 2);
  CHECK(first.stays[0].replica == c.replicas[0]);
  CHECK(is_about(first.stays[0].took, 5ms));
  CHECK(first.stays[1].replica == c.replicas[1]);
  CHECK(is_about(first.stays[1].took, 2ms));
}

TEST_CASE("explain: a queued request lists its time in the queue") {
  two_stages c;
  send(c, 1, 10);
  c.advance(3ms);
  auto last = story(c, "10");
  CHECK(last.open);
  CHECK(last.attempts == 0);
  CHECK(last.stays.empty());
  CHECK(is_about(last.queue, 3ms));
}

TEST_CASE("explain: a request that expired in the queue lists its time in the"
          " queue") {
  two_stages c;
  send(c, 1, 9);
  c.request(10, marked(c, 10), 8ms);
  c.advance(1s);
  auto x = story(c, "10");
  CHECK(x.status == ec::deadline_exceeded);
  CHECK(x.attempts == 0);
  CHECK(x.queue >= 7ms);
  CHECK(x.queue <= 8ms);
}

TEST_CASE("explain: a request that expired or was cancelled lists its stage at"
          " that time") {
  two_stages c;
  auto expected = ec::deadline_exceeded;
  SUBCASE("past its deadline") {
    c.request(1, marked(c, 1), 8ms);
  }
  SUBCASE("cancelled") {
    c.request(1, marked(c, 1));
    c.advance(8ms);
    c.cancel(1);
    expected = ec::cancelled;
  }
  c.advance(1s);
  CHECK(c.answers() == counts{{expected, 1}});
  auto x = story(c);
  CHECK_FALSE(x.open);
  CHECK(x.status == expected);
  CHECK(x.attempts == 1);
  REQUIRE(x.stays.size() == 2);
  CHECK(is_about(x.stays[0].took, 5ms));
  CHECK(x.stays[1].replica == c.replicas[1]);
  CHECK(is_about(x.stays[1].took, 3ms));
}

TEST_CASE("explain: a request that failed in a part lists the part and the time"
          " in each stage until then") {
  two_stages c;
  c.node(c.at[1]).faults().failing_executions = 1;
  c.request(1, marked(c, 1));
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::internal, 1}});
  auto x = story(c);
  CHECK(x.replica == c.replicas[1]);
  REQUIRE(x.visits.size() == 2);
  for (size_t i : {0, 1}) {
    CHECK(x.visits[i].replica == c.replicas[i]);
    CHECK(is_about(x.visits[i].execute, 5ms));
  }
  CHECK(is_about(x.execute, 10ms));
  CHECK(x.queue < 1ms);
}

TEST_CASE("explain: a repeated request stores its failed attempt with the lost"
          " replica") {
  virtual_cluster c{4, in_parts(2, 2), ten_ms, {}, {{0}, 700us}};
  std::string lost; // a replica of the last part
  for (auto& r : queue_of(c).replicas)
    if (r.layers.first != 0)
      lost = r.replica;
  send(c, 1, 100);
  c.advance(100ms);
  tell_replica(c, lost, stage_lost{0, "test"});
  c.advance(3s);
  CHECK(c.answers() == counts{{ec::ok, 100}});
  auto all =
    c.ask_actor<request_list, gateway_actor>("./gateway", get_requests{});
  REQUIRE(all);
  size_t again = 0, handed_on = 0;
  for (auto& x : all->requests) {
    if (x.vain.empty())
      continue;
    ++again;
    CHECK(x.attempts == 2);
    REQUIRE(x.vain.size() == 1);
    auto& y = x.vain[0];
    CHECK(y.why.find(lost) != std::string::npos);
    if (y.stays.back().replica != lost) {
      ++handed_on;
      CHECK(y.stays.size() == 1);
      CHECK(y.why
            == "the batch from " + y.stays[0].replica + " to " + lost
                 + " was lost");
    }
  }
  CHECK(again > 0);
  CHECK(handed_on > 0);
}

TEST_CASE("P15: a request that twice found no replica of its next stage is not"
          " poison") {
  virtual_cluster c{4, in_parts(2), {50ms, 90ms, 10ms}}; // 50 ms per stage
  c.request(1, marked(c, 1));
  for (size_t attempt = 1; attempt <= 2; ++attempt) {
    while (c.given < attempt)
      c.advance(1ms);
    for (auto& r : queue_of(c).replicas)
      if (r.layers.first > 0) // while the first stage runs the request
        tell_replica(c, r.replica, stage_lost{0, "test"});
  }
  c.advance(10s);
  CHECK(c.answers() == counts{{ec::unavailable, 1}});
  auto x = story(c);
  CHECK(x.attempts == 2);
  REQUIRE(x.vain.size() == 2);
  for (auto& y : x.vain)
    CHECK(y.why == "no replica could go on after " + y.stays.back().replica);
}

TEST_CASE("P15: a request lost twice between two nodes is not poison") {
  virtual_cluster c{4, in_parts(2), {50ms, 90ms, 10ms}, {}, {{0}, 5ms}};
  c.request(1, marked(c, 1));
  for (size_t attempt = 1; attempt <= 2; ++attempt) {
    for (int k = 0; k < 9000 && c.given < attempt; ++k)
      c.advance(1ms);
    REQUIRE(c.given == attempt);
    c.advance(52ms); // the run of 50 ms ended, the output is in transit
    for (auto& r : queue_of(c).replicas)
      if (r.layers.first > 0)
        c.kill(tell_replica(c, r.replica, tick::value)); // its node
  }
  c.advance(9s);
  CHECK(c.answers() == counts{{ec::unavailable, 1}});
  auto x = story(c);
  CHECK(x.attempts == 2);
  REQUIRE(x.vain.size() == 2);
  for (auto& y : x.vain)
    CHECK(y.why.find("the batch from") != std::string::npos);
}

TEST_CASE("explain: the answer at the deadline states the failure of the"
          " previous attempt") {
  for (auto after_others : {false, true}) { // true: by the router
    virtual_cluster c{1, want(1), ten_ms};
    if (after_others) {
      c.request(1);
      c.advance(1s);
    }
    c.request(2);
    c.advance(4ms);
    c.kill(c.given_to); // no other worker exists
    c.advance(20s);
    CHECK(c.answers()[ec::deadline_exceeded] == 1);
    auto text = story(c).error;
    INFO(text);
    CHECK(
      text.ends_with("; an earlier attempt failed: replica m.1.1 was lost"));
  }
}

TEST_CASE("explain: the time of a failed attempt is separate from the time in"
          " the queue") {
  virtual_cluster c{2, want(2), ten_ms};
  c.request(1);
  c.advance(4ms);
  auto first = c.given_to;
  c.kill(first);
  c.advance(10s);
  REQUIRE(c.answers() == counts{{ec::ok, 1}});
  auto stories =
    c.ask_actor<request_list, gateway_actor>("./gateway", get_requests{});
  REQUIRE(stories);
  REQUIRE(stories->requests.size() == 1);
  auto& x = stories->requests[0];
  CHECK(x.attempts == 2);
  REQUIRE(x.vain.size() == 1);
  REQUIRE(x.vain[0].stays.size() == 1);
  auto& lost = x.vain[0].stays[0];
  CHECK(lost.replica.starts_with("m.1"));
  CHECK(lost.replica != x.replica);
  CHECK(x.vain[0].why == "replica " + lost.replica + " was lost");
  CHECK(lost.took >= 4ms);
  CHECK(lost.took <= x.queue);
  CHECK(x.queue - lost.took < 1ms); // the other replica was idle
}

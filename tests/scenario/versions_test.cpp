// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>

#include "tests/support/parts.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("gateway: requests that wait for a version are answered by its"
          " replacement unless they name the version") {
  virtual_cluster c{1, one_by_one(1), ten_ms};
  for (uint64_t i = 1; i <= 50; ++i)
    c.request(i);
  auto first = c.ask();
  first.version = "1";
  c.request(51, first);
  have(c, one_by_one(1, "2"));
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 50}, {ec::unavailable, 1}});
  CHECK(c.replies[51][0].error == "version 1 of model 'm' is no longer served");
  CHECK(c.replies[1][0].version == 1);
  CHECK(c.replies[50][0].version == 2);
  c.request(52, first);
  c.drain();
  CHECK(c.replies[52][0].error == "no version '1' of model 'm'; there is 2");
}

TEST_CASE("gateway: requests that wait for a model that is withdrawn are"
          " answered at once") {
  virtual_cluster c{1, one_by_one(1), ten_ms};
  for (uint64_t i = 1; i <= 50; ++i)
    c.request(i);
  SUBCASE("scaled to zero") {
    have(c, one_by_one(0));
  }
  SUBCASE("removed") {
    REQUIRE(c.ask_actor<ack, registry_actor>("./registry", forget_model{"m"}));
  }
  c.advance(100ms);
  auto found = c.answers();
  CHECK(found[ec::ok] + found[ec::unavailable] == 50);
  CHECK(found[ec::unavailable] > 0);
  c.request(51);
  c.drain();
  CHECK(c.replies[51][0].status == ec::unknown_model);
}

TEST_CASE("gateway: a version that is served again gets requests again") {
  virtual_cluster c{2, one_by_one(2), ten_ms};
  for (auto version : {"2", "1", "2"}) {
    have(c, one_by_one(2, version));
    c.advance(1s);
    c.request(1);
    c.advance(20ms);
    REQUIRE(c.replies[1].size() == 1);
    CHECK(c.replies[1][0].status == ec::ok);
    CHECK(std::to_string(c.replies[1][0].version) == version);
    c.replies.clear();
  }
}

TEST_CASE("gateway: requests wait for the only version while its nodes are"
          " lost") {
  virtual_cluster c{1, one_by_one(1), ten_ms};
  have(c, one_by_one(1, "2"));
  c.advance(1s);
  c.kill("w1");
  c.request(1);
  c.start_spare();
  c.advance(5s);
  REQUIRE(c.replies[1].size() == 1);
  CHECK(c.replies[1][0].version == 2);
}

TEST_CASE("gateway: requests that wait for a first replica are answered when"
          " the model is withdrawn") {
  virtual_cluster c{1, one_by_one(1), ten_ms};
  c.kill("w1");
  c.advance(2s);
  c.request(1);
  c.advance(100ms);
  CHECK(c.replies.empty());
  have(c, one_by_one(0));
  c.advance(100ms);
  CHECK(c.answers() == counts{{ec::unavailable, 1}});
  c.request(2);
  c.drain();
  CHECK(c.replies[2][0].status == ec::unknown_model);
}

TEST_CASE("gateway: a restarted gateway receives the list of served models") {
  virtual_cluster c{1, one_by_one(1), ten_ms};
  c.crash("./gateway");
  c.advance(3s);
  c.kill("w1");
  c.advance(2s);
  c.request(1);
  have(c, one_by_one(0));
  c.advance(100ms);
  CHECK(c.answers() == counts{{ec::unavailable, 1}});
}

TEST_CASE("gateway: a request of an application continues with the version that"
          " replaces its variant") {
  virtual_cluster c{1, one_by_one(1), ten_ms};
  auto x = c.ask();
  x.model.clear();
  x.application = "a";
  for (uint64_t i = 1; i <= 50; ++i)
    c.request(i, x);
  have(c, one_by_one(1, "2"));
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 50}});
  CHECK(c.replies[50][0].version == 2);
  CHECK(c.replies[50][0].queue >= 400ms); // sum of both queues
}

TEST_CASE("P15: inputs that ended a process of one version end at most one"
          " process of the next version") {
  virtual_cluster c{1, one_by_one(1), ten_ms};
  c.node("w1").faults().ending_executions = 1;
  c.request(1);
  c.advance(20ms);
  have(c, one_by_one(1, "2"));
  c.advance(3s);
  REQUIRE(c.replies[1].size() == 1);
  CHECK(c.replies[1][0].status == ec::poison);
  CHECK(c.replies[1][0].version == 2);
  CHECK(c.given == 2);
}

TEST_CASE("gateway: a request for a version waits for that version even if"
          " another is ready") {
  virtual_cluster c{1, one_by_one(1), ten_ms};
  have(c, one_by_one(1, "2"));
  c.advance(1s);
  c.kill("w1");
  c.advance(2s);
  replica_ready old;
  old.name = "m.1.9";
  old.info.model = "m";
  old.info.version = 1;
  old.limits.credit = 1;
  old.handle = c.actor("./monitor"); // an actor that gets no request
  c.tell("./gateway", old);
  auto x = c.ask();
  x.version = "2";
  c.request(1, x);
  c.start_spare();
  c.advance(5s);
  REQUIRE(c.replies[1].size() == 1);
  CHECK(c.replies[1][0].status == ec::ok);
}

TEST_CASE("P10: an ended replica leaves no state and no references") {
  virtual_cluster c{1, one_by_one(1), ten_ms};
  auto status =
    c.ask_actor<node_status, supervisor_actor>("w1/supervisor", get_status{});
  REQUIRE(status);
  auto& name = status->replicas.at(0).what.replica;
  c.request(1);
  c.advance(1s);
  auto replica = caf::actor_cast<caf::actor_addr>(
    c.node("w1").bus()->resolve("w1/replica/" + name));
  REQUIRE(replica);
  have(c, one_by_one(0));
  c.advance(10s);
  have(c, one_by_one(1)); // the next replica subscribes
  c.advance(10s);
  auto* block = replica.get();
  CHECK(block->strong_refs.load() == 0);
  CHECK(block->weak_refs.load() == 1); // reference of this test
}

TEST_CASE("router: a replica that drains gets no more batches") {
  virtual_cluster c{2, want(2), {50ms, 1s, 1ms}};
  std::set<std::string> given;
  auto ask = [&](uint64_t id) {
    c.request(id);
    c.advance(10ms);
    given.insert(c.given_to);
  };
  ask(1);
  ask(2);
  REQUIRE(given.size() == 2); // both replicas are busy for 1 s
  REQUIRE(c.ask_actor<ack, registry_actor>("./registry",
                                           set_model{want(1), false, {}}));
  c.advance(50ms);
  given.clear();
  for (uint64_t id = 3; id <= 20; ++id)
    ask(id);
  c.advance(5s);
  given.insert(c.given_to);
  CHECK(given.size() == 1);
  CHECK(c.answers() == counts{{ec::ok, 20}});
}

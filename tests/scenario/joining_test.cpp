// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/parts.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Restarts a cluster with a delay of `apart` between the workers.
void start_one_by_one(virtual_cluster& c, microseconds apart) {
  std::vector<std::string> workers{"w1", "w2"};
  for (auto& name : workers)
    c.kill(name);
  c.kill("front");
  c.advance(3s);
  c.node("front").start();
  for (auto& name : workers) {
    c.advance(apart);
    c.node(name).start();
  }
}

} // namespace

TEST_CASE("placement: the first worker to join does not get all replicas") {
  virtual_cluster c{2, in_parts(2), ten_ms};
  start_one_by_one(c, 1500ms);
  c.advance(1s); // the third worker never joins; the wait is at most 1 s longer
  CHECK(c.ask_actor<model_list, placement_actor>("./placement", get_models{})
          ->models.at(0)
          .note
        == "waits for w-spare to join");
  c.advance(2s);
  send(c, 1, 10);
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 10}});
  CHECK(c.executed_on == std::map<std::string, size_t>{{"w1", 10}, {"w2", 10}});
}

TEST_CASE("placement: replicas start without a late worker and the worker gets"
          " a share when it joins") {
  virtual_cluster c{2, in_parts(2), ten_ms};
  c.kill("w2");
  c.advance(10s);
  send(c, 1, 10);
  c.advance(1s);
  CHECK(c.executed_on == std::map<std::string, size_t>{{"w1", 20}});
  c.node("w2").start();
  c.advance(10s);
  send(c, 11, 20);
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 20}});
  CHECK(c.executed_on == std::map<std::string, size_t>{{"w1", 30}, {"w2", 10}});
}

TEST_CASE("supervisor: a configured node is listed as gone before it joins and"
          " as left after it drains") {
  virtual_cluster c{2, want(1)};
  auto gone = [&] {
    return c
      .ask_actor<member_list, supervisor_actor>("./supervisor", get_members{})
      ->left;
  };
  REQUIRE(gone().size() == 1);
  CHECK(gone()[0].node.name == "w-spare");
  CHECK(gone()[0].reason == "not seen since front started");
  CHECK(gone()[0].ago >= 4s);
  c.start_spare();
  c.advance(2s);
  CHECK(gone().empty());
  c.node("w1").drain();
  c.advance(10s);
  REQUIRE(gone().size() == 1);
  CHECK(gone()[0].node.name == "w1");
  CHECK(gone()[0].reason == "left");
  c.node("w1").start();
  c.advance(2s);
  CHECK(gone().empty());
}

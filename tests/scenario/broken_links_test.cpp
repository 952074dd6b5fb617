// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/parts.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Cuts or restores the links between two nodes.
void part(virtual_cluster& c, const std::string& a, const std::string& b,
          bool cut) {
  auto x = c.node(a).host(), y = c.node(b).host();
  auto& links = c.inside().links();
  for (auto [from, to] : {std::pair{x, y}, std::pair{y, x}})
    cut ? links.cut(from, to) : links.mend(from, to);
}

/// Sends 50 requests to two stages and cuts the links between the stages.
std::vector<std::string> cut_off(virtual_cluster& c) {
  auto nodes = nodes_of(c, 3);
  REQUIRE(nodes.size() == 2);
  send(c, 1, 50);
  c.advance(22ms);
  part(c, nodes[0], nodes[1], true);
  return nodes;
}

} // namespace

TEST_CASE("pipelines: a stage that loses only its link to the next stage loses"
          " no batch") {
  virtual_cluster c{3, in_parts(2), ten_ms};
  auto nodes = cut_off(c);
  SUBCASE("the link returns after 3 s") {
    c.advance(3s);
    part(c, nodes[0], nodes[1], false);
    c.advance(7s);
    CHECK(c.answers() == counts{{ec::ok, 50}});
  }
  SUBCASE("the link stays lost and no other path exists") {
    c.advance(12s);
    CHECK(c.replies.size() == 50);
    for (auto& [status, n] : c.answers())
      CHECK((status == ec::ok || status == ec::unavailable
             || status == ec::deadline_exceeded));
    part(c, nodes[0], nodes[1], false);
    c.advance(5s);
  }
  c.replies.clear();
  send(c, 101, 120);
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 20}});
  CHECK(queue_of(c).running == 0);
}

TEST_CASE("P3: a stage that detects the loss of the next stage before the"
          " router keeps its batches for another replica") {
  virtual_cluster c{3, in_parts(2), ten_ms};
  auto nodes = cut_off(c);
  c.advance(400ms); // by now both nodes gave each other up, at most 100 ms ago
  c.kill(nodes[1]);
  c.advance(9s);
  CHECK(c.answers() == counts{{ec::ok, 50}});
  CHECK(all_are_right(c));
  CHECK(queue_of(c).running == 0);
}

TEST_CASE("P3: a batch that cannot reach one replica of the next part is"
          " forwarded to another replica") {
  auto wanted = in_parts(2);
  wanted.replicas_of_parts = {1, 2};
  virtual_cluster c{3, wanted, ten_ms};
  auto there = holders(c, 3);
  REQUIRE(there.count(0) == 1);
  REQUIRE(there.size() == 3);
  std::vector<std::string> nodes;
  for (auto& [first, name] : there)
    nodes.push_back(name);
  send(c, 1, 100);
  c.advance(22ms);
  part(c, nodes[0], nodes[1], true);
  c.advance(9s);
  CHECK(c.answers() == counts{{ec::ok, 100}});
  CHECK(all_are_right(c));
  // No held batch ran again. Only batches in transit and the few batches that
  // probe the link add to the number of requests.
  CHECK(c.executed_on[nodes[0]] <= 102);
  CHECK(c.executed_on[nodes[2]] >= 90);
  part(c, nodes[0], nodes[1], false);
  c.advance(5s);
  auto before = c.executed_on[nodes[1]];
  send(c, 101, 200);
  c.advance(2s);
  CHECK(c.answers() == counts{{ec::ok, 200}});
  CHECK(c.executed_on[nodes[1]] >= before + 30); // the link is used again
  CHECK(queue_of(c).running == 0);
  for (auto& r : queue_of(c).replicas)
    CHECK(r.credit == 2); // no credit was lost
}

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/parts.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Memory in use on the devices of the workers, in bytes.
uint64_t memory_of(virtual_cluster& c, size_t workers) {
  uint64_t n = 0;
  for (size_t i = 1; i <= workers; ++i)
    for (auto& d : c.load_of("w" + std::to_string(i)).devices)
      n += d.memory;
  return n;
}

} // namespace

TEST_CASE("FP-24: parts become whole replicas on their devices while they serve"
          " without a lost or repeated request") {
  auto wanted = in_parts(3);
  wanted.complete = true;
  // A third of the model loads in 2 s, the rest in 4 s.
  virtual_cluster c{3, wanted, emulation{6s, 9ms, 1ms}};
  c.advance(500ms);
  REQUIRE(queue_of(c).replicas.size() == 3);
  uint64_t sent = 0;
  auto serve = [&](microseconds length) {
    for (auto t = 0us; t < length; t += 5ms) {
      send(c, sent + 1, sent + 1);
      ++sent;
      c.advance(5ms);
    }
  };
  serve(3s);
  CHECK(queue_of(c).replicas.size() == 3);
  serve(2s);
  c.advance(1s);
  auto all = queue_of(c).replicas;
  REQUIRE(all.size() == 3);
  for (auto& r : all)
    CHECK(r.layers == layer_range{0, 12});
  CHECK(c.answers() == counts{{ec::ok, sent}});
  CHECK(all_are_right(c));
  CHECK(c.executions == sent);
  c.executed_on.clear();
  send(c, sent + 1, sent + 90);
  c.advance(1s);
  for (auto node : {"w1", "w2", "w3"})
    CHECK(c.executed_on[node] == doctest::Approx(30).epsilon(0.2));
}

TEST_CASE("FP-24: the completion of a part stops when the part is evicted") {
  auto wanted = in_parts(2);
  wanted.complete = true;
  virtual_cluster c{2, wanted, emulation{6s, 9ms, 1ms}};
  c.advance(2s);
  REQUIRE(queue_of(c).replicas.size() == 2);
  auto none = wanted;
  none.replicas = 0;
  have(c, none);
  c.advance(200ms);
  for (auto name : {"w1", "w2"})
    CHECK((*c.ask_actor<node_status, supervisor_actor>(
             std::string{name} + "/supervisor", get_status{}))
            .replicas.empty());
  c.advance(2s); // placement sends the order again only then
  CHECK(memory_of(c, 2) == 0);
}

TEST_CASE("FP-24: lost parts are started again at once on devices where"
          " completion has failed") {
  auto wanted = in_parts(2);
  wanted.complete = true;
  virtual_cluster c{2, wanted, emulation{6s, 9ms, 1ms}};
  c.advance(1s); // the parts are ready
  for (auto name : {"w1", "w2"})
    c.node(name).faults().failing_loads = 1;
  c.advance(22s); // fifth failure: no completion for 8 s
  c.start_spare();
  c.advance(1s);
  c.kill("w2");
  c.advance(4s);
  c.replies.clear();
  send(c, 1, 20);
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 20}});
}

TEST_CASE("FP-24: a whole replica and the part that it replaces share one copy"
          " of their weights") {
  auto wanted = in_parts(2);
  wanted.complete = true;
  // Whole replicas are ready after 9.9 s. An open request keeps the parts that
  // it needs.
  virtual_cluster c{2, wanted, emulation{7800ms, 2s, 1ms}};
  c.advance(5400ms);
  auto parts = memory_of(c, 2);
  REQUIRE(parts > 0);
  send(c, 1, 1);
  c.advance(600ms);
  REQUIRE(first_layers(c, 2).size() == 4);
  CHECK(memory_of(c, 2) == 2 * parts);
  c.advance(5s);
  CHECK(first_layers(c, 2).size() == 2);
  CHECK(memory_of(c, 2) == 2 * parts);
  CHECK(all_are_right(c));
}

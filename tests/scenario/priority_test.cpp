// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/virtual_cluster.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("router: queued requests are dispatched by priority and then in order"
          " of arrival") {
  virtual_cluster c{1, one_by_one(1), ten_ms};
  // The first two requests are at the replica before the others arrive.
  const int32_t priorities[]{0, 0, 0, 5, -1, 5, 0, INT32_MAX, INT32_MIN, -1};
  uint64_t id = 0;
  for (auto priority : priorities) {
    c.request(++id, priority);
    c.drain();
  }
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, std::size(priorities)}});
  std::vector<uint64_t> order(id);
  std::iota(order.begin(), order.end(), 1);
  std::sort(order.begin(), order.end(), [&](auto x, auto y) {
    return c.replies[x][0].total < c.replies[y][0].total;
  });
  CHECK(order == std::vector<uint64_t>{1, 2, 8, 4, 6, 3, 7, 5, 10, 9});
}

TEST_CASE("router: a request of lower priority waits for all of higher priority"
          " until its deadline") {
  virtual_cluster c{1, one_by_one(1), ten_ms};
  uint64_t id = 1;
  for (int i = 0; i < 10; ++i)
    c.request(++id, 1);
  c.request(1, c.ask(), 500ms);
  // Requests arrive at the rate that the replica can serve.
  for (; c.replies[1].empty() && id < 200; c.advance(10ms))
    c.request(++id, 1);
  REQUIRE(c.replies[1].size() == 1);
  CHECK(c.replies[1][0].status == ec::overloaded); // too late to run
  CHECK(c.replies[1][0].total > 480ms);
  CHECK(c.replies[1][0].total <= 500ms);
}

TEST_CASE("I5: a request runs on one replica while that replica lives even if"
          " others are idle") {
  virtual_cluster c{3, one_by_one(3), {50ms, 5s, 1ms}};
  for (uint64_t id = 1; id <= 3; ++id) {
    c.request(id);
    c.drain();
  }
  c.advance(20s);
  CHECK(c.answers() == counts{{ec::ok, 3}});
  CHECK(c.executions == 3);
  CHECK(c.given == 3);
}

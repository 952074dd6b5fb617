// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/virtual_cluster.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("explain: what an attempt took that came to nothing is told apart"
          " from the queue") {
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
  CHECK(x.vain[0].replica.starts_with("m.1"));
  CHECK(x.vain[0].replica != x.replica);
  CHECK(x.vain[0].took >= 4ms);
  CHECK(x.vain[0].took <= x.queue);
  CHECK(x.queue - x.vain[0].took < 1ms); // the other one was idle
}

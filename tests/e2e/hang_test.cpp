// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/canary_load.hpp"
#include "tests/support/http.hpp"
#include "tests/support/live_cluster.hpp"
#include "tests/support/stopped_thread.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

const std::string bundles = TEST_BUNDLES;

timestamp now() {
  return std::chrono::steady_clock::now();
}

/// Whether a node is linked with that one, as it sees it itself.
bool is_linked(operator_client& with, const std::string& node) {
  auto list = with.ask<member_list>("./supervisor", get_members{}, 500ms);
  return list
         && std::any_of(list->peers.begin(), list->peers.end(),
                        [&](auto& x) { return x.name == node; });
}

} // namespace

TEST_CASE("P4: a node whose actors hang is fenced, what it says on waking is"
          " dropped, and it serves again") {
  // The thread of its actors and sockets stands still; those of ZeroMQ and the
  // processes of its models go on, so that its connections look well.
  auto http = free_port();
  auto nodes = apart();
  nodes["gw"] += "    http: 127.0.0.1:" + std::to_string(http) + "\n";
  // By default a silent node is given up after a second.
  live_cluster c{nodes, "  - {model: identity, replicas: 2}\n", bundles,
                 "link: {timeout: 500ms}\n"};
  c.start_and_meet();
  auto gateway = c.connect_operator("gw");
  auto bus = thread_of(c["w1"].pid(), "bus");
  REQUIRE(bus != 0);
  canary_load load{c.connect_client(), "identity", 32};
  load.start();
  REQUIRE(eventually([&] { return load.longest_wait.load() > 0us; }, 5s));
  std::vector<microseconds> waits, returns;
  const int pauses = 3 * times();
  for (int i = 0; i < pauses; ++i) {
    load.longest_wait = 0us;
    {
      stopped_thread hung{bus};
      REQUIRE(eventually([&] { return !is_linked(gateway, "w1"); }, 5s));
      ::usleep(100'000 * (1 + i % 5)); // others do its work for a while
      waits.push_back(load.longest_wait);
    }
    auto begin = now();
    REQUIRE(c.wait_ready());
    REQUIRE(eventually([&] { return is_linked(gateway, "w1"); }, 5s));
    returns.push_back(to_us(now() - begin));
  }
  load.stop();
  load.finish();
  report(load);
  auto run_again =
    metric(http, "millrace_redispatched_total{model=\"identity\"}");
  auto most = [](auto& xs) {
    return format_duration(*std::max_element(xs.begin(), xs.end()));
  };
  MESSAGE("around " << pauses << " pauses: longest wait " << most(waits)
                    << ", back after " << most(returns) << ", " << run_again
                    << " requests run elsewhere");
  CHECK(load.submitted > 1000);
  CHECK(load.answered == load.submitted);
  CHECK(load.surprises == 0);
  CHECK(load.foreign == 0);
  CHECK(load.statuses[ec::ok] == load.submitted);
  CHECK(run_again > 0); // it had some, and answers them on waking
  CHECK(*std::max_element(waits.begin(), waits.end()) < 1s);
}

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>

#include <sys/socket.h>
#include <sys/un.h>

#include "runtime/random.hpp"
#include "tests/support/canary_load.hpp"
#include "tests/support/distribution.hpp"
#include "tests/support/http.hpp"
#include "tests/support/live_cluster.hpp"
#include "tests/support/stopped_thread.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

/// Returns true if the node of this client reports a link with another node.
bool is_linked(operator_client& with, const std::string& node) {
  auto list = with.ask<member_list>("./supervisor", get_members{}, 500ms);
  return list
         && std::any_of(list->peers.begin(), list->peers.end(),
                        [&](auto& x) { return x.name == node; });
}

} // namespace

TEST_CASE("P4: a hanging node is fenced and its late messages are dropped and"
          " the node serves again") {
  // The connections of a hanging node look intact. If only the thread of its
  // actors and sockets hangs, the threads of ZeroMQ answer. If the whole
  // process hangs, the kernel answers.
  bool all_of_it = false;
  SUBCASE("the actors hang") {
  }
  SUBCASE("the node hangs except for its model processes") {
    all_of_it = true;
  }
  auto http = free_port();
  auto nodes = apart();
  nodes["gw"] += "    http: 127.0.0.1:" + std::to_string(http) + "\n";
  live_cluster c{nodes, "  - {model: identity, replicas: 2}\n", bundles};
  c.start_and_meet();
  auto gateway = c.connect_operator("gw");
  auto bus = thread_of(c["w1"].pid(), "bus");
  REQUIRE(bus != 0);
  canary_load load{c.connect_client(), "identity", 32};
  load.start();
  REQUIRE(eventually([&] { return load.longest_wait.load() > 0us; }, 5s));
  std::vector<timestamp> stopped;
  std::vector<microseconds> returns;
  auto random = chance();
  const int pauses = 5 * times();
  for (int i = 0; i < pauses; ++i) {
    {
      std::optional<stopped_thread> hung;
      stopped.push_back(steady_now());
      if (all_of_it)
        c["w1"].signal(SIGSTOP);
      else
        hung.emplace(bus);
      REQUIRE(eventually([&] { return !is_linked(gateway, "w1"); }, 5s));
      // Other nodes serve for a while, sometimes for 30 s.
      ::usleep(i % 20 == 19 ? 30'000'000 : 100'000 << random.below(5));
      c["w1"].signal(SIGCONT);
    }
    auto begin = steady_now();
    REQUIRE(c.wait_ready());
    REQUIRE(eventually([&] { return is_linked(gateway, "w1"); }, 5s));
    returns.push_back(to_us(steady_now() - begin));
  }
  load.stop();
  load.finish();
  report(load);
  auto run_again =
    metric(http, "millrace_redispatched_total", R"(model="identity")");
  auto waits = load.waits_from(stopped);
  MESSAGE("longest wait around " << pauses << " pauses: " << distribution(waits)
                                 << "; back: " << distribution(returns) << "; "
                                 << run_again << " requests run elsewhere");
  CHECK(load.submitted > 1000);
  CHECK(load.answered == load.submitted);
  CHECK(load.surprises == 0);
  CHECK(load.foreign == 0);
  CHECK(load.statuses[ec::ok] == load.submitted);
  CHECK(run_again > 0); // the node had requests and answers them late
  CHECK(most_of(waits) < 1s);
}

TEST_CASE("P4: a node paused for 10 s sends no watchdog notification to the"
          " service manager") {
  temporary_directory dir;
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  auto path = dir / "manager";
  REQUIRE(path.size() < sizeof at.sun_path);
  std::copy(path.begin(), path.end(), at.sun_path);
  file_descriptor manager{
    ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  REQUIRE(::bind(manager.get(), reinterpret_cast<sockaddr*>(&at), sizeof at)
          == 0);
  /// Returns true if the node has sent a watchdog notification since the last
  /// call.
  auto is_well = [&] {
    char text[512];
    auto any = false;
    for (ssize_t n = 0; (n = ::recv(manager.get(), text, sizeof text, 0)) > 0;)
      any |= std::string_view{text, static_cast<size_t>(n)}.find("WATCHDOG=1")
             != std::string_view::npos;
    return any;
  };
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  ::setenv("WATCHDOG_USEC", "1000000", 1); // one notification per 500 ms
  auto http = free_port();
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"
                          "    http: 127.0.0.1:"
                            + std::to_string(http) + "\n"}},
                 "  - {model: identity}\n",
                 bundles};
  c.start("all");
  ::unsetenv("NOTIFY_SOCKET");
  ::unsetenv("WATCHDOG_USEC");
  auto livez = [&] { return http_get(http, "/livez"); };
  REQUIRE(
    eventually([&] { return livez().find(" 200") != std::string::npos; }, 10s));
  REQUIRE(eventually(is_well, 5s));
  {
    stopped_thread hung{thread_of(c["all"].pid(), "bus")};
    CHECK(eventually(
      [&] {
        is_well(); // empties the socket
        return livez().find(" 503") != std::string::npos;
      },
      15s));
    ::usleep(600'000); // for a notification in progress
    is_well();
    ::usleep(1'500'000);
    CHECK_FALSE(is_well());
  }
  CHECK(
    eventually([&] { return livez().find(" 200") != std::string::npos; }, 5s));
  CHECK(eventually(is_well, 5s));
}

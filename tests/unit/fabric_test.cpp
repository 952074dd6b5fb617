// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "runtime/random.hpp"
#include "tests/support/builders.hpp"
#include "transport/simulated/fabric.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

using path = std::vector<link_number>;

/// Runs flows to their ends. Returns the end of each, in seconds.
std::map<flow_number, double> finished(fabric& net) {
  std::map<flow_number, double> out;
  while (net.next_due() != far_future) {
    auto now = net.next_due();
    for (auto f : net.take_ended(now)) {
      out[f] = to_seconds(now - at(0s));
      net.stop(f, now);
    }
  }
  return out;
}

} // namespace

TEST_CASE("fabric: a single flow takes the time of its slowest link") {
  fabric net;
  path p{net.add_link(100), net.add_link(50), net.add_link(200)};
  auto f = net.start(p, 500, at(0s));
  CHECK(net.rate(f) == doctest::Approx(50));
  CHECK(finished(net)[f] == doctest::Approx(10));
}

TEST_CASE("fabric: two flows on one link have half of the capacity each") {
  fabric net;
  path p{net.add_link(100)};
  auto a = net.start(p, 1000, at(0s));
  auto b = net.start(p, 1000, at(0s));
  auto ended = finished(net);
  CHECK(ended[a] == doctest::Approx(20));
  CHECK(ended[b] == doctest::Approx(20));
}

TEST_CASE("fabric: the share of a flow that ends goes to the others") {
  fabric net;
  path p{net.add_link(100)};
  auto a = net.start(p, 1000, at(0s));
  auto b = net.start(p, 3000, at(0s));
  auto ended = finished(net);
  CHECK(ended[a] == doctest::Approx(20));
  CHECK(ended[b] == doctest::Approx(40)); // 1000 in 20 s, then 2000 alone
}

TEST_CASE("fabric: a flow that starts late gets its share from then on") {
  fabric net;
  path p{net.add_link(100)};
  auto a = net.start(p, 1000, at(0s));
  auto b = net.start(p, 250, at(5s));
  auto ended = finished(net);
  CHECK(ended[b] == doctest::Approx(10));
  CHECK(ended[a] == doctest::Approx(12.5));
}

TEST_CASE("fabric: in a chain each hop has its own links") {
  fabric net;
  std::vector<path> hops;
  for (int i = 0; i < 5; ++i)
    hops.push_back({net.add_link(100), net.add_link(100)});
  for (auto& hop : hops)
    net.start(hop, 1000, at(0s));
  for (auto& [f, ended] : finished(net))
    CHECK(ended == doctest::Approx(10));
}

TEST_CASE("fabric: an incast shares the receiver's link") {
  fabric net;
  auto down = net.add_link(100);
  for (int i = 0; i < 8; ++i) {
    path p{net.add_link(100), down};
    net.start(p, 100, at(0s));
  }
  for (auto& [f, ended] : finished(net))
    CHECK(ended == doctest::Approx(8));
}

TEST_CASE("fabric: shares are max-min fair") {
  // Bertsekas and Gallager's example: one flow crosses both links.
  fabric net;
  auto x = net.add_link(10), y = net.add_link(20);
  auto a = net.start(path{x}, 1e6, at(0s));
  auto b = net.start(path{x, y}, 1e6, at(0s));
  auto c = net.start(path{y}, 1e6, at(0s));
  CHECK(net.rate(a) == doctest::Approx(5));
  CHECK(net.rate(b) == doctest::Approx(5));
  CHECK(net.rate(c) == doctest::Approx(15));
}

TEST_CASE(
  "fabric: no flow could be faster except at the cost of a slower one") {
  random_stream random{7};
  for (int round = 0; round < 50; ++round) {
    fabric net;
    std::vector<link_number> links;
    std::vector<double> capacity;
    for (int i = 0; i < 6; ++i) {
      capacity.push_back(10 + 90 * random.uniform());
      links.push_back(net.add_link(capacity.back()));
    }
    std::map<flow_number, path> flows;
    for (int i = 0; i < 12; ++i) {
      path p;
      for (auto l : links)
        if (random.below(3) == 0)
          p.push_back(l);
      if (!p.empty())
        flows[net.start(p, 1e9, at(0s))] = p;
    }
    for (auto& [f, p] : flows) {
      // One link of the path is full, and no flow on that link is faster.
      auto held_back =
        std::any_of(p.begin(), p.end(), [&, mine = net.rate(f)](link_number l) {
          double used = 0, fastest = 0;
          for (auto& [g, q] : flows)
            if (std::count(q.begin(), q.end(), l) != 0) {
              used += net.rate(g);
              fastest = std::max(fastest, net.rate(g));
            }
          return used > capacity[l] * (1 - 1e-9) && mine > fastest * (1 - 1e-9);
        });
      CHECK(held_back);
    }
  }
}

TEST_CASE("fabric: a slower link slows its flows") {
  fabric net;
  auto l = net.add_link(100);
  auto f = net.start(path{l}, 1000, at(0s));
  net.set_capacity(l, 10, at(5s));
  CHECK(finished(net)[f] == doctest::Approx(55));
}

TEST_CASE(
  "fabric: a link of capacity zero delays its flows until it recovers") {
  fabric net;
  auto l = net.add_link(100);
  auto f = net.start(path{l}, 1000, at(0s));
  net.set_capacity(l, 0, at(5s));
  CHECK(net.next_due() == far_future);
  net.set_capacity(l, 50, at(105s));
  CHECK(finished(net)[f] == doctest::Approx(115));
}

TEST_CASE("fabric: consecutive chunks behave as one long flow") {
  fabric net;
  path p{net.add_link(100)};
  auto other = net.start(p, 5000, at(0s));
  auto f = net.start(p, 100, at(0s));
  for (int i = 1; i < 10; ++i) {
    auto now = net.next_due();
    REQUIRE(net.take_ended(now) == std::vector<flow_number>{f});
    net.go_on(f, 100, now);
    CHECK(net.rate(other) == doctest::Approx(50));
  }
  CHECK(finished(net)[f] == doctest::Approx(20));
}

TEST_CASE(
  "fabric: the room of a link is the integral of its capacity over time") {
  fabric net;
  auto link = net.add_link(100);
  auto before = net.room(link, at(10s));
  net.set_capacity(link, 30, at(20s));
  CHECK(net.room(link, at(20s)) - before == doctest::Approx(1000));
  CHECK(net.room(link, at(24s)) - before == doctest::Approx(1120));
  net.set_capacity(link, 0, at(24s));
  CHECK(net.room(link, at(100s)) - before == doctest::Approx(1120));
}

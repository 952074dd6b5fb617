// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "tests/support/parts.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr uint64_t stages = 5;

/// Five parts of two layers each, but for one of four, which takes twice as
/// long.
model_settings with_slow_part(uint64_t slow, uint64_t held) {
  auto out = want(1);
  for (uint64_t i = 0, layer = 0; i + 1 < stages; ++i)
    out.cuts.push_back(layer += i == slow ? 4 : 2);
  out.policy.batch = 1;
  out.policy.held = held;
  return out;
}

/// A part of two layers runs a request in 2 ms, that of four in 4 ms.
const emulation two_ms{50ms, 12ms, 0us};

/// Sends requests for a while, at exponential gaps, to each gateway in turn.
/// Returns when each was sent.
std::map<uint64_t, timestamp> send_at_random(virtual_cluster& c, double rate,
                                             microseconds length,
                                             size_t gateways) {
  random_stream random{7};
  std::map<uint64_t, timestamp> out;
  auto end = c.now() + length;
  for (uint64_t id = 1; c.now() < end; ++id) {
    auto gateway = id % gateways == 0 ? "front" : "front2";
    c.node(gateway).bus()->client_sends({0, "client"}, id, marked(c, id), 100s);
    out[id] = c.now();
    c.advance(std::chrono::duration_cast<microseconds>(
      std::chrono::duration<double>(-std::log(1 - random.uniform()) / rate)));
  }
  return out;
}

/// Figures of one stage, from the runs of the devices alone.
struct stage_figures {
  double wait = 0;  ///< mean seconds
  double queue = 0; ///< mean number of requests
};

/// Weighted as the demand window does: by exp(-age / 10 s).
std::map<uint64_t, stage_figures>
figures_of(const virtual_cluster& c, std::map<uint64_t, timestamp> arrived,
           timestamp begun) {
  constexpr double memory = 10;
  auto runs = c.runs;
  std::sort(runs.begin(), runs.end(),
            [](auto& a, auto& b) { return a.ended < b.ended; });
  std::map<uint64_t, double> ended;
  for (auto& x : runs)
    for (auto id : x.requests)
      ended[id] = std::max(ended[id], to_seconds(x.ended - begun));
  auto until = to_seconds(c.now() - begun);
  std::map<uint64_t, std::array<double, 2>> sums;
  for (auto& x : runs)
    for (auto id : x.requests) {
      auto weight = std::exp((ended[id] - until) / memory);
      auto wait = to_seconds(x.started - arrived.at(id));
      arrived.at(id) = x.ended;
      sums[x.first_layer][0] += weight;
      sums[x.first_layer][1] += weight * wait;
    }
  auto length = memory * (1 - std::exp(-until / memory));
  std::map<uint64_t, stage_figures> out;
  for (auto& [layer, x] : sums)
    out[layer] = {x[1] / x[0], x[1] / length};
  return out;
}

std::map<uint64_t, stage_load> demand_of(virtual_cluster& c) {
  std::map<uint64_t, stage_load> out;
  auto list = *c.ask_actor<demand_list, cluster_state_actor>("./cluster_state",
                                                             get_demand{});
  REQUIRE(list.models.size() == 1);
  for (auto& x : list.models[0].stages)
    out[x.layers.first] = x;
  return out;
}

} // namespace

TEST_CASE(
  "held: a slow stage shows its backlog in its own queue, at each of"
  " five positions, with one and two gateways, as the devices' runs do") {
  for (uint64_t slow = 0; slow < stages; ++slow)
    for (size_t gateways : {1, 2}) {
      CAPTURE(slow);
      CAPTURE(gateways);
      virtual_cluster c{
        stages, with_slow_part(slow, 4096), two_ms, {}, {{0}, 0us}, gateways};
      auto begun = c.now();
      auto sent = send_at_random(c, 220, 20s, gateways);
      c.advance(500ms);
      auto found = demand_of(c);
      auto expected = figures_of(c, sent, begun);
      REQUIRE(found.size() == stages);
      auto slow_layer = 2 * slow;
      double others = 0;
      for (auto& [layer, x] : found) {
        auto first_layer = layer;
        CAPTURE(first_layer);
        auto& y = expected.at(layer);
        CHECK(x.wait == doctest::Approx(y.wait).epsilon(0.05));
        CHECK(x.queue == doctest::Approx(y.queue).epsilon(0.05));
        others += layer == slow_layer ? 0 : x.queue;
      }
      CHECK(found.at(slow_layer).queue > 2 * others);
      c.advance(10s);
      CHECK(c.replies.size() == sent.size());
      CHECK(all_are_right(c));
    }
}

TEST_CASE("held: without held output the backlog of a slow last stage shows in"
          " the queue of the first") {
  virtual_cluster c{stages, with_slow_part(4, 0), two_ms};
  auto sent = send_at_random(c, 300, 5s, 1);
  c.advance(300ms);
  auto found = demand_of(c);
  CHECK(found.at(0).queue > 5 * found.at(8).queue);
}

TEST_CASE("held: no more output is held than policy.held, and none is lost with"
          " its replica") {
  auto wanted = with_slow_part(4, 3);
  virtual_cluster c{stages, wanted, two_ms};
  send(c, 1, 100);
  c.advance(200ms);
  auto status =
    *c.ask_actor<queue_status, router_actor>("./router/m.1", get_queue{});
  // Beside those that run and those held: one that is blocked, for its stage
  // has a credit for the next.
  for (auto& r : status.replicas)
    CHECK(r.batches <= 3 + 2);
  auto waited = status.waiting;
  CHECK(waited > 20);
  SUBCASE("all are answered") {
  }
  SUBCASE("more may be held") {
    wanted.policy.held = 50;
    have(c, wanted);
    c.advance(60ms); // the last part runs 15 batches
    status =
      *c.ask_actor<queue_status, router_actor>("./router/m.1", get_queue{});
    CHECK(status.waiting + 20 < waited);
  }
  SUBCASE("a stage that holds output is lost") {
    c.start_spare();
    auto held_at = status.replicas.at(0).replica;
    for (auto& [layer, node] : holders(c, stages))
      if (layer == 6)
        c.kill(node);
  }
  c.advance(20s);
  CHECK(c.answers() == counts{{ec::ok, 100}});
  CHECK(all_are_right(c));
}

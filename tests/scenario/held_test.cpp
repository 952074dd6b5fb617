// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "tests/support/parts.hpp"
#include "tests/support/random_sender.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr uint64_t stages = 5;

/// Five parts of two layers each, except one slow part of four layers.
model_settings with_slow_part(uint64_t slow, uint64_t held) {
  auto out = want(1);
  for (uint64_t i = 0, layer = 0; i + 1 < stages; ++i)
    out.cuts.push_back(layer += i == slow ? 4 : 2);
  out.policy.batch = 1;
  out.policy.held = held;
  return out;
}

/// A part of two layers runs a request in 2 ms, the part of four layers in 4
/// ms.
const emulation two_ms{50ms, 12ms, 0us};

/// Figures of one stage, computed only from the device runs.
struct stage_figures {
  double wait = 0;  ///< mean seconds
  double queue = 0; ///< mean number of requests
};

/// Figures of the requests answered in the last 2 s of the report, which ends
/// about 150 ms before now.
std::map<uint64_t, stage_figures>
figures_of(const virtual_cluster& c, std::map<uint64_t, timestamp> arrived) {
  constexpr double length = 2.125; // the oldest report begins before these 2 s
  auto until = c.now();
  auto runs = c.runs;
  std::sort(runs.begin(), runs.end(),
            [](auto& a, auto& b) { return a.ended < b.ended; });
  std::map<uint64_t, timestamp> ended;
  for (auto& x : runs)
    for (auto id : x.requests)
      ended[id] = std::max(ended[id], x.ended);
  std::map<uint64_t, std::array<double, 2>> sums;
  for (auto& x : runs)
    for (auto id : x.requests) {
      auto wait = to_seconds(x.started - arrived.at(id));
      arrived.at(id) = x.ended;
      if (ended[id] > until || to_seconds(until - ended[id]) > length)
        continue;
      sums[x.first_layer][0] += 1;
      sums[x.first_layer][1] += wait;
    }
  std::map<uint64_t, stage_figures> out;
  for (auto& [layer, x] : sums)
    out[layer] = {x[1] / x[0], std::max(1e-9, x[1] / length)};
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

TEST_CASE("held: the backlog of a slow stage is in its own queue at each of"
          " five positions with one or two gateways") {
  for (uint64_t slow = 0; slow < stages; ++slow)
    for (size_t gateways : {1, 2}) {
      CAPTURE(slow);
      CAPTURE(gateways);
      virtual_cluster c{
        stages, with_slow_part(slow, 4096), two_ms, {}, {{0}, 0us}, gateways};
      random_sender load{c, 220, gateways};
      std::map<uint64_t, std::vector<double>> waits, queues; // relative errors
      double slow_queue = 0, others = 0;
      load.run(3s);
      for (int second = 0; second < 17; ++second) {
        load.run(1s);
        auto before = demand_of(c);
        auto found = before;
        while (found == before) { // wait for the next report
          load.run(5ms);
          found = demand_of(c);
        }
        auto expected = figures_of(c, load.sent);
        REQUIRE(found.size() == stages);
        for (auto& [layer, x] : found) {
          auto& y = expected.at(layer);
          auto error = [](double is, double right, double small) {
            return std::max(0.0, std::abs(is - right) - small)
                   / std::max(right, 1e-6);
          };
          waits[layer].push_back(error(x.wait, y.wait, 0.00002));
          queues[layer].push_back(error(x.queue, y.queue, 0.02));
          (layer == 2 * slow ? slow_queue : others) += x.queue;
        }
      }
      for (auto& [layer, errors] : waits) {
        auto first_layer = layer;
        CAPTURE(first_layer);
        CHECK(median(errors) < 0.05 * static_cast<double>(gateways));
        CHECK(median(queues.at(layer)) < 0.1);
      }
      CHECK(slow_queue > 2 * others);
      c.advance(10s);
      CHECK(c.replies.size() == load.sent.size());
      CHECK(all_are_right(c));
    }
}

TEST_CASE("held: without held output the backlog of a slow last stage shows in"
          " the queue of the first") {
  virtual_cluster c{stages, with_slow_part(4, 0), two_ms};
  random_sender load{c, 300, 1};
  load.run(5s);
  c.advance(300ms);
  auto found = demand_of(c);
  CHECK(found.at(0).queue > 5 * found.at(8).queue);
}

TEST_CASE("held: a stage holds at most policy.held outputs and the loss of its"
          " replica loses none") {
  auto wanted = with_slow_part(4, 3);
  virtual_cluster c{stages, wanted, two_ms};
  send(c, 1, 100);
  c.advance(200ms);
  auto status =
    *c.ask_actor<queue_status, router_actor>("./router/m.1", get_queue{});
  // In addition to running and held batches, one batch may be blocked, because
  // its stage has a credit of the next stage.
  for (auto& r : status.replicas)
    CHECK(r.batches <= 3 + 2);
  auto waited = status.waiting;
  CHECK(waited > 20);
  SUBCASE("all are answered") {
  }
  SUBCASE("a larger policy.held") {
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

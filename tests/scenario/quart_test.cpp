// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "runtime/text.hpp"
#include "simulator/log_line.hpp"
#include "tests/support/parts.hpp"
#include "tests/support/random_sender.hpp"
#include "tests/support/runs.hpp"

using namespace millrace;
using namespace millrace::simulator;
using namespace millrace::test;

namespace {

record run_key_stage(const std::vector<std::string>& changes = {}) {
  return run_example("quart-key-stage.yaml", changes);
}

struct change {
  double at;        ///< seconds of the run
  std::string what; ///< event text
};

std::vector<change> changes_in(const record& x) {
  std::vector<change> out;
  for (auto& e : x.events)
    if (e.what.starts_with("autoscaler.scaled "))
      out.push_back({to_seconds(e.at), e.what});
  return out;
}

bool has(const change& x, const std::string& text) {
  return x.what.find(text) != std::string::npos;
}

/// Returns true if a change in the first 3 s after `from` names the stage as
/// key stage and adds replicas to it.
bool is_key_after(const std::vector<change>& xs, double from,
                  const std::string& stage) {
  return std::any_of(xs.begin(), xs.end(), [&](auto& x) {
    return x.at > from && x.at < from + 3 && has(x, "key stages: ")
           && has(x, stage + " (") && !has(x, stage + " x1");
  });
}

constexpr uint64_t stage_count = 5;

/// Five parts of two layers each, except one slow part of four layers.
model_settings with_slow_stage(uint64_t slow) {
  auto out = want(1);
  for (uint64_t i = 0, layer = 0; i + 1 < stage_count; ++i)
    out.cuts.push_back(layer += i == slow ? 4 : 2);
  out.policy.batch = 1;
  out.policy.held = 4096;
  out.slo = 300ms;
  out.scaling.policy = "quart";
  return out;
}

/// The scaling status of model "m".
scaling_status scaling_of(virtual_cluster& c) {
  auto list =
    c.ask_actor<scaling_list, autoscaler_actor>("./autoscaler", get_scaling{});
  REQUIRE(list);
  REQUIRE(list->models.size() == 1);
  return list->models[0];
}

/// Mean time in seconds from arrival at a stage to the end of its run, by first
/// layer, for the requests answered in the last 2 s of the report.
std::map<uint64_t, double> delays_of(const virtual_cluster& c,
                                     std::map<uint64_t, timestamp> arrived) {
  auto until = c.now() - 150ms;
  auto runs = c.runs;
  std::sort(runs.begin(), runs.end(),
            [](auto& a, auto& b) { return a.ended < b.ended; });
  std::map<uint64_t, timestamp> ended;
  for (auto& x : runs)
    ended[x.requests.at(0)] = std::max(ended[x.requests.at(0)], x.ended);
  std::map<uint64_t, std::array<double, 2>> sums;
  for (auto& x : runs) {
    auto id = x.requests.at(0);
    auto delay = to_seconds(x.ended - arrived.at(id));
    arrived.at(id) = x.ended;
    if (ended[id] > until || until - ended[id] > 2125ms)
      continue;
    sums[x.first_layer][0] += 1;
    sums[x.first_layer][1] += delay;
  }
  std::map<uint64_t, double> out;
  for (auto& [layer, x] : sums)
    out[layer] = x[1] / x[0];
  return out;
}

} // namespace

TEST_CASE("QU-17: the slow stage is the key stage and has its replicas within 3"
          " s and all requests are answered") {
  auto x = run_key_stage();
  auto changes = changes_in(x);
  CHECK(is_key_after(changes, 0, "2-8"));
  CHECK(is_key_after(changes, 30, "8-10"));
  for (auto& r : x.requests)
    CHECK(r.status == ec::ok);
  auto middle = std::find_if(changes.begin(), changes.end(), [](auto& c) {
    return has(c, "0-2 x1, 2-8 x3, 8-10 x1");
  });
  REQUIRE(middle != changes.end());
  CHECK(middle->at < 3.5);
  CHECK(has(changes.back(), "0-2 x1"));
  CHECK(!has(changes.back(), "8-10 x1"));
}

TEST_CASE("QU-62: without the corrector the latency is at least 50 % higher") {
  auto with = mean_latency(run_key_stage());
  auto without =
    mean_latency(run_key_stage({"scopes.model/chain.options.corrector=false"}));
  CHECK(without > 1.5 * with);
}

TEST_CASE("QU-11: the slow stage is the key stage and gets replicas at each of"
          " five positions with one or two gateways") {
  for (uint64_t slow = 0; slow < stage_count; ++slow)
    for (size_t gateways : {1, 2}) {
      CAPTURE(slow);
      CAPTURE(gateways);
      // 10 ms for two layers; 60 requests/s are 1.2 busy replicas of four.
      virtual_cluster c{
        12, with_slow_stage(slow), {50ms, 60ms, 0us}, {}, {{0}, 0us}, gateways};
      random_sender load{c, 60, gateways};
      auto begun = c.now();
      auto is_key = [](auto& x) { return x.key; };
      auto found = scaling_of(c).stages;
      while (c.now() < begun + 3s
             && std::none_of(found.begin(), found.end(), is_key)) {
        load.run(100ms);
        found = scaling_of(c).stages;
      }
      REQUIRE(found.size() == stage_count);
      for (uint64_t i = 0; i < stage_count; ++i)
        CHECK(found[i].key == (i == slow));
      load.run(to_us(begun + 4s - c.now()));
      size_t there = 0;
      for (auto& [layer, node] : holders(c, 12))
        there += layer == 2 * slow;
      CHECK(there >= 2);
      load.run(2s);
      c.advance(10s);
      CHECK(c.replies.size() == load.sent.size());
      CHECK(all_are_right(c));
    }
}

TEST_CASE("QU-06: the median delay of a stage in scaling is within 5 % of the"
          " device runs") {
  auto wanted = with_slow_stage(2);
  wanted.scaling.options = {{"corrector", "false"}, {"smoother", "off"}};
  virtual_cluster c{5, wanted, {50ms, 12ms, 0us}}; // 2 ms for two layers
  random_sender load{c, 200, 1};
  load.run(3s);
  std::map<uint64_t, std::vector<double>> errors; // by first layer
  for (auto before = scaling_of(c).stages; errors[4].size() < 20;) {
    load.run(50ms);
    auto found = scaling_of(c).stages;
    if (found[2].delay == before[2].delay)
      continue; // no decision in the meantime
    before = found;
    auto expected = delays_of(c, load.sent);
    for (auto& x : found)
      errors[x.layers.first].push_back(
        std::abs(x.delay / expected.at(x.layers.first) - 1));
  }
  for (auto& [layer, xs] : errors) {
    auto first_layer = layer;
    CAPTURE(first_layer);
    CHECK(median(xs) < 0.05);
  }
}

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "actors/gateway/demand_counts.hpp"
#include "actors/policies/state/demand_window.hpp"
#include "actors/policies/state/duration_bins.hpp"
#include "runtime/random.hpp"

using namespace millrace;

namespace {

constexpr auto period = 250ms;
const timestamp begin{1h};

/// Gateways that count a constant load of model m, and a controller's window
/// with their reports.
struct gateways {
  demand_window window{period, begin};
  std::map<std::string, demand_report> last;
  double per_second = 40;

  demand_report next(const std::string& node) {
    auto& x = last[node];
    x.node = node;
    x.incarnation = 1;
    x.life = 1;
    ++x.sequence;
    x.end += period;
    x.models.resize(1);
    auto& m = x.models[0];
    m.model = "m";
    m.arrived =
      static_cast<uint64_t>(std::lround(per_second * to_seconds(x.end)));
    m.ok = m.executed = m.arrived;
    m.within = m.arrived / 2;
    m.device_seconds = 0.015 * static_cast<double>(m.arrived);
    return x;
  }
};

/// The first report of gateway g1, without a request for model m yet.
demand_report empty_report() {
  demand_report x;
  x.node = "g1";
  x.incarnation = x.life = 1;
  x.models.resize(1);
  x.models[0].model = "m";
  return x;
}

} // namespace

TEST_CASE("demand: a constant load has its rate and its cost and its part "
          "within the SLO") {
  gateways all;
  all.window.expect({"g1", "g2"}, begin);
  auto now = begin;
  for (int i = 0; i < 80; ++i) {
    now += period;
    for (auto* node : {"g1", "g2"})
      REQUIRE(all.window.add(all.next(node), now));
  }
  auto x = all.window.load_of("m", now);
  CHECK(x.rate == doctest::Approx(80).epsilon(0.01));
  REQUIRE(x.seconds.size() == 20);
  CHECK(x.seconds.back() == doctest::Approx(80).epsilon(0.01));
  CHECK(x.service == doctest::Approx(0.015));
  CHECK(x.within == doctest::Approx(0.5).epsilon(0.01));
  CHECK(all.window.covered(now) == 20s - 250ms);
}

TEST_CASE("demand: reports with a second of delay and a fifth of losses change "
          "a rate by less than 5 %") {
  gateways all;
  all.window.expect({"g1"}, begin);
  random_stream chance{7};
  auto now = begin;
  double most = 0;
  for (int i = 0; i < 240; ++i) {
    now += period;
    auto x = all.next("g1");
    if (chance.uniform() < 0.2)
      continue;
    all.window.add(x, now + 1s);
    if (i > 20)
      most = std::max(
        most, std::abs(all.window.load_of("m", now + 1s).rate - 40) / 40);
  }
  CHECK(most < 0.05);
}

TEST_CASE("demand: a report with falling counts or invalid numbers is ignored "
          "and counted") {
  gateways all;
  all.window.expect({"g1"}, begin);
  CHECK(all.window.add(all.next("g1"), begin + period));
  auto falling = all.next("g1");
  falling.models[0].arrived = 3;
  CHECK_FALSE(all.window.add(falling, begin + 2 * period));
  auto odd = all.next("g1");
  odd.models[0].device_seconds = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(all.window.add(odd, begin + 3 * period));
  auto early = all.next("g1");
  early.models[0].bins = {uint64_t{1} << 62, {1}};
  CHECK_FALSE(all.window.add(early, begin + 3 * period));
  auto endless = all.next("g1");
  endless.end = microseconds::max();
  CHECK_FALSE(all.window.add(endless, begin + 3 * period));
  auto list = all.window.list(begin + 3 * period);
  REQUIRE(list.sources.size() == 1);
  CHECK(list.sources[0].reports == 5);
  CHECK(list.sources[0].ignored == 4);
  CHECK(all.window.load_of("m", begin + 3 * period).service
        == doctest::Approx(0.015));
}

TEST_CASE("demand: a gateway that reports 5000 models is counted for 4096") {
  gateways all;
  all.window.expect({"g1"}, begin);
  auto many = all.next("g1");
  for (int i = 1; i < 5000; ++i) {
    many.models.push_back(many.models[0]);
    many.models.back().model = "invented-" + std::to_string(i);
  }
  CHECK_FALSE(all.window.add(many, begin + period));
  CHECK(all.window.models().size() == 4096);
  CHECK(all.window.load_of("m", begin + period).rate > 0);
}

TEST_CASE("demand: an old report or one of an earlier life has no effect") {
  gateways all;
  all.window.expect({"g1"}, begin);
  auto first = all.next("g1"), second = all.next("g1");
  CHECK(all.window.add(second, begin + 2 * period));
  CHECK_FALSE(all.window.add(first, begin + 2 * period));
  auto reborn = second;
  reborn.life = 2;
  reborn.sequence = 1;
  reborn.end = period;
  reborn.models[0].arrived = 10;
  CHECK(all.window.add(reborn, begin + 4 * period));
  CHECK_FALSE(all.window.add(all.next("g1"), begin + 4 * period));
  CHECK(all.window.list(begin + 4 * period).models[0].arrived == 30);
}

TEST_CASE("demand: a gateway that restarts makes no rate negative") {
  gateways all;
  all.window.expect({"g1"}, begin);
  auto now = begin;
  for (int i = 0; i < 12; ++i)
    all.window.add(all.next("g1"), now += period);
  all.last.clear();
  for (int i = 0; i < 12; ++i) {
    auto x = all.next("g1");
    x.incarnation = 2;
    all.window.add(x, now += period);
    auto load = all.window.load_of("m", now);
    CHECK(load.rate >= 0);
    for (auto y : load.seconds)
      CHECK(y >= 0);
  }
  CHECK(all.window.load_of("m", now).rate == doctest::Approx(40).epsilon(0.01));
}

TEST_CASE(
  "demand: requests counted before this controller began are no current load") {
  gateways all;
  for (int i = 0; i < 4000; ++i)
    all.next("g1");
  all.window.expect({"g1"}, begin);
  CHECK(all.window.add(all.next("g1"), begin + period));
  CHECK(all.window.load_of("m", begin + period).rate == 0);
  for (int i = 2; i < 8; ++i)
    all.window.add(all.next("g1"), begin + i * period);
  CHECK(all.window.load_of("m", begin + 7 * period).rate
        == doctest::Approx(40).epsilon(0.01));
}

TEST_CASE(
  "demand: no time is covered while an expected gateway does not report") {
  gateways all;
  all.window.expect({"g1", "g2"}, begin);
  auto now = begin;
  for (int i = 0; i < 8; ++i)
    all.window.add(all.next("g1"), now += period);
  CHECK(all.window.covered(now) == 0us);
  CHECK(all.window.overdue(now) == std::vector<std::string>{"g2"});
  all.window.expect({"g1"}, now);
  CHECK(all.window.covered(now) > 1s);
  CHECK(all.window.overdue(now + 2s) == std::vector<std::string>{"g1"});
  CHECK(all.window.covered(now + 2s) == 0us);
}

TEST_CASE(
  "demand: random arrivals have a CV of one and even arrivals of zero") {
  random_stream chance{3};
  for (auto random : {true, false}) {
    demand_window window{period, begin};
    window.expect({"g1"}, begin);
    auto x = empty_report();
    auto& m = x.models[0];
    timestamp at = begin, last = begin;
    for (int i = 1; i <= 200; ++i) {
      for (; at < begin + i * period; ++m.arrived) {
        m.gaps.add(at - last);
        last = at;
        at += random
                ? nanoseconds{static_cast<int64_t>(1e7 * chance.exponential())}
                : nanoseconds{10ms};
      }
      ++x.sequence;
      x.end += period;
      window.add(x, begin + i * period);
    }
    auto cv = window.load_of("m", begin + 50s).arrival_cv;
    CHECK(cv == doctest::Approx(random ? 1 : 0).epsilon(0.1));
  }
}

TEST_CASE("demand: arrivals are placed by the bins of the gateway even if "
          "reports are lost") {
  auto loads = [](bool lost) {
    demand_window window{period, begin};
    window.expect({"g1"}, begin);
    auto x = empty_report();
    for (int i = 1; i <= 16; ++i) { // 30 requests from 1.1 s to 1.2 s
      ++x.sequence;
      x.end += period;
      if (x.end >= 1200ms) {
        x.models[0].arrived = 30;
        x.models[0].bins = {11, {30}};
      }
      if (!lost || i < 5 || i > 10)
        window.add(x, begin + i * period);
    }
    return window.load_of("m", begin + 16 * period).seconds;
  };
  // Seconds end at 4 s, 3 s, 2 s and 1 s.
  CHECK(loads(false) == std::vector<double>{0, 0, 30, 0});
  CHECK(loads(true) == std::vector<double>{0, 0, 30, 0});
}

TEST_CASE(
  "demand: each arrival is counted once if a report ends within a bin") {
  demand_window window{period, begin};
  window.expect({"g1"}, begin);
  demand_count count{"m", begin};
  auto x = empty_report();
  auto now = begin;
  for (int i = 0; i < 10'000; ++i) { // one request each ms
    now += 1ms;
    count.arrived(1, now);
    if (i % 250 != 249)
      continue;
    ++x.sequence;
    x.end = to_us(now - begin);
    x.models[0] = count.report(now);
    REQUIRE(x.models[0].bins.counts.size() <= arrival_bins::most);
    window.add(x, now);
  }
  auto seconds = window.load_of("m", now).seconds;
  REQUIRE(seconds.size() == 10);
  for (auto n : seconds)
    CHECK(n == doctest::Approx(1000).epsilon(0.002));
}

TEST_CASE("demand: a gateway counts batches by stage and adds the wait of a "
          "held output to the next stage") {
  demand_count count{"m", begin};
  requests_completed x;
  x.execute = 30ms;
  x.visits = {{"m.1.1", 2ms, 10ms, 7ms, {0, 4}},
              {"m.1.2", 1ms, 20ms, 0ms, {4, 8}}};
  outcome answer;
  answer.queue = 15ms; // 5 ms of these in the router
  x.outcomes = {answer, answer};
  count.executed(x, 2);
  requests_completed whole;
  whole.execute = 40ms;
  whole.outcomes = {answer};
  count.executed(whole, 1);
  auto stages = count.report(begin + 1s).stages;
  REQUIRE(stages.size() == 3);
  CHECK(stages[0].layers == layer_range{});
  CHECK(stages[0].waits.sum == doctest::Approx(0.015));
  CHECK(stages[1].requests == 2);
  CHECK(stages[1].waits.sum == doctest::Approx(0.007));
  CHECK(stages[1].runs.sum == doctest::Approx(0.010));
  CHECK(stages[2].waits.sum == doctest::Approx(0.008));
  // The controller's means.
  demand_window window{period, begin};
  window.expect({"g1"}, begin);
  demand_report r;
  r.node = "g1";
  r.incarnation = r.life = r.sequence = 1;
  r.end = 250ms;
  r.models = {count.report(begin + 250ms)};
  CHECK(window.add(r, begin + 250ms));
  auto load = window.load_of("m", begin + 250ms);
  REQUIRE(load.stages.size() == 3);
  CHECK(load.stages[1].batch == doctest::Approx(2));
  CHECK(load.stages[2].run == doctest::Approx(0.020));
  CHECK(load.stages[2].run_cv == doctest::Approx(0));
}

TEST_CASE("demand: bins of durations have exact begins and a width of a "
          "quarter of an octave") {
  CHECK(duration_bin(-1us) == 0);
  CHECK(duration_bin(1us) == 0);
  CHECK(duration_bin(2us) == 4);
  CHECK(duration_bin(3us) == 6);
  CHECK(duration_bin(1024us) == 40);
  CHECK(duration_bin(1279us) == 40);
  CHECK(duration_bin(1280us) == 41);
  CHECK(duration_bin(microseconds::max()) == duration_bins::most - 1);
  CHECK(begin_of_duration_bin(40) == doctest::Approx(0.001024));
  CHECK(begin_of_duration_bin(41) == doctest::Approx(0.001280));
}

TEST_CASE("demand: a report has latencies and errors by model") {
  demand_window window{period, begin};
  window.expect({"g1"}, begin);
  demand_count count{"m", begin};
  auto x = empty_report();
  auto report = [&](int n) {
    x.sequence = static_cast<uint64_t>(n);
    x.end = n * period;
    x.models[0] = count.report(begin + n * period);
    REQUIRE(window.add(x, begin + n * period));
    return window.list(begin + n * period).models.at(0);
  };
  auto answer = [&](int n, ec status, microseconds took) {
    for (int i = 0; i < n; ++i) {
      count.arrived(1, begin);
      count.answered(status, 0us, took, 1s);
    }
  };
  answer(1, ec::overloaded, 0us);
  auto none = report(1);
  CHECK(none.latency_p50 == 0);
  CHECK(none.errors == 1);
  answer(97, ec::ok, 10ms);
  answer(2, ec::ok, 900ms);
  answer(1, ec::deadline_exceeded, 1s);
  auto all = report(2);
  CHECK(all.latency_p50 == doctest::Approx(0.010).epsilon(0.25));
  CHECK(all.latency_p99 == doctest::Approx(0.900).epsilon(0.25));
  CHECK(all.errors == doctest::Approx(0.02).epsilon(0.02));
  // A minute later the old answers hardly count.
  answer(50, ec::ok, 100ms);
  auto later = report(240);
  CHECK(later.latency_p50 == doctest::Approx(0.100).epsilon(0.25));
  CHECK(later.latency_p99 == doctest::Approx(0.100).epsilon(0.25));
  CHECK(later.errors < 0.001);
}

TEST_CASE(
  "demand: a report with falling latency counts or unknown bins is ignored") {
  demand_window window{period, begin};
  window.expect({"g1"}, begin);
  auto x = empty_report();
  auto add = [&](uint64_t first, std::vector<uint64_t> counts) {
    ++x.sequence;
    x.end += period;
    x.models[0].latencies = {first, std::move(counts)};
    return window.add(x, begin + x.sequence * period);
  };
  CHECK(add(40, {5, 1}));
  CHECK_FALSE(add(40, {5}));
  CHECK_FALSE(add(41, {6}));
  CHECK_FALSE(add(~uint64_t{0}, {5, 1}));
  CHECK_FALSE(add(duration_bins::most - 1, {5, 1}));
  CHECK(add(40, {5, 1, 1}));
}

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>

#include "actors/policies/predict/sharing_model.hpp"
#include "runtime/random.hpp"

using namespace millrace;

namespace {

/// 60 ms per batch of 128, SLO 200 ms, as in the digest's vectors.
shared_load load_of(uint64_t requests) {
  shared_load out;
  out.requests = requests;
  out.batch = 128;
  out.solo = 0.06;
  out.slo = 0.2;
  return out;
}

bool is_close_to(double found, double expected) {
  return std::abs(found - expected) < 1e-6; // 1e-3 ms
}

std::function<double(double)> power(double factor, double exponent) {
  return [=](double k) { return factor * std::pow(k, exponent); };
}

} // namespace

TEST_CASE("PA-12: equation 1 gives the digest's vectors to 1e-3 ms") {
  CHECK(is_close_to(printed_tmax(load_of(600), 0.3, 0), 0.084375));
  CHECK(is_close_to(printed_tmax(load_of(600), 0.8, 0), 0.225));
  CHECK(is_close_to(printed_tmax(load_of(600), 1.2, 0), 0.3375));
  CHECK(is_close_to(printed_tmax(load_of(600), 1.2, 493), 0.29128125));
  CHECK(is_close_to(printed_tmax(load_of(400), 1.2, 293), 0.197531250));
  CHECK(is_close_to(printed_tmax(load_of(400), 1.2, 267), 0.199968750));
}

TEST_CASE("PA-13: the printed range has the digest's bounds") {
  auto found = printed_range(load_of(600), 0.3);
  REQUIRE(found);
  CHECK(found->first == 0);
  CHECK(found->last == 173);
  CHECK(!printed_range(load_of(600), 0.8));
  CHECK(!printed_range(load_of(600), 1.2));
  found = printed_range(load_of(400), 1.2);
  REQUIRE(found);
  CHECK(found->first == 267);
  CHECK(found->last == 293);
  CHECK(!printed_range(load_of(100), 0.3)); // C2
}

TEST_CASE("PA-14: range and split in closed form equal exhaustive search in "
          "10000 random cases") {
  random_stream random{1};
  size_t empty = 0;
  for (int i = 0; i < 10'000; ++i) {
    shared_load x;
    x.requests = 1 + random.below(700);
    x.batch = 1 + random.below(128);
    x.solo = 0.005 + 0.1 * random.uniform();
    x.slo = 0.02 + 0.4 * random.uniform();
    auto part = i % 20 == 0 ? 1 : 0.01 + 1.5 * random.uniform();
    std::optional<split_range> range;
    std::optional<uint64_t> best;
    for (uint64_t y = 0; y < x.requests; ++y) {
      auto batches =
        static_cast<double>(x.requests - y) / static_cast<double>(x.batch);
      if (batches * part <= 1 || printed_tmax(x, part, y) >= x.slo)
        continue;
      range = split_range{range ? range->first : y, y};
      if (!best
          || printed_tmax(x, part, y) < printed_tmax(x, part, *best) - 1e-12)
        best = y;
    }
    CAPTURE(i);
    auto found = printed_range(x, part);
    REQUIRE(found.has_value() == range.has_value());
    empty += !range;
    if (!range)
      continue;
    CHECK(found->first == range->first);
    CHECK(found->last == range->last);
    CHECK(is_close_to(printed_split(x, part)->longest,
                      printed_tmax(x, part, *best)));
  }
  CHECK(empty > 1000);
  CHECK(empty < 9000);
}

TEST_CASE("PA-16: without contention no request waits") {
  auto x = load_of(100);
  x.slowdown = power(0.3, 1);
  auto found = best_split(x, split_objective::min_tmax);
  CHECK(found.queued == 0);
  CHECK(found.on_time == 100);
  x.requests = 384; // three batches, 0.9 of the bandwidth
  found = best_split(x, split_objective::min_tmax);
  CHECK(found.queued == 0);
  CHECK(found.longest == doctest::Approx(0.06));
}

TEST_CASE("PA-17: the best split equals exhaustive search for both objectives "
          "and each law") {
  random_stream random{2};
  for (int i = 0; i < 2000; ++i) {
    shared_load x;
    x.batch = 16 + random.below(113);
    x.requests = 1 + random.below(20 * x.batch);
    x.solo = 0.02 + 0.06 * random.uniform();
    x.slo = 0.2;
    x.slowdown = power(0.1 + 0.6 * random.uniform(), 1 + random.uniform());
    for (auto by : {split_objective::min_tmax, split_objective::max_on_time}) {
      auto found = best_split(x, by);
      for (uint64_t together = x.requests;;) {
        auto other = split_of(x, x.requests - together);
        if (by == split_objective::max_on_time)
          CHECK(found.on_time >= other.on_time);
        else
          CHECK(found.longest <= other.longest + 1e-12);
        if (together <= x.batch)
          break;
        together = (together - 1) / x.batch * x.batch;
      }
    }
  }
}

TEST_CASE("PA-65: the cap is the number of batches with most throughput on the "
          "measured curve") {
  shared_load x;
  x.requests = 700;
  x.batch = 108;
  x.solo = 0.049;
  x.slo = 0.2;
  x.slowdown = power(0.1, 2); // 3 / 1, 4 / 1.6
  CHECK(best_cap(x) == 3);
  x.slowdown = power(0.289, 1.5); // 2 / 1, 3 / 1.5
  CHECK(best_cap(x) == 2);
  x.slowdown = power(2, 1);
  CHECK(best_cap(x) == 1);
  x.slowdown = nullptr;
  CHECK(best_cap(x) == 7);
  x.at_once_max = 4;
  CHECK(best_cap(x) == 4);
}

TEST_CASE(
  "PA-05: batches are smaller than full only if more requests are on time") {
  shared_load x;
  x.requests = 700;
  x.batch = 108;
  x.solo = 0.049;
  x.slo = 0.2;
  x.at_once_max = 12;
  x.slowdown = [](double k) { return 0.64 * k; };
  auto full = best_split(x, split_objective::max_on_time);
  CHECK(full.on_time == 648); // 6 batches of 108
  auto found = best_split_of_rows(x, 0.005);
  CHECK(found.at_once == 7);
  CHECK(found.rows == 95);
  CHECK(found.on_time == 665);
  x.requests = 300;
  CHECK(best_split_of_rows(x, 0.005).rows == 108);
  x.slowdown = {};
  x.requests = 700;
  CHECK(best_split_of_rows(x, 0.005).rows == 108);
}

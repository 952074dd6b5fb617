// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "simulator/arrivals.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

workload_part part_of(arrival_process process, double rate) {
  workload_part out;
  out.arrivals = process;
  out.rate = rate;
  return out;
}

arrival_times arrivals_of(const workload_part& x, microseconds length,
                          std::vector<uint32_t>* function = nullptr) {
  auto out = make_arrivals(x, length, random_stream{11}, function);
  REQUIRE(out);
  CHECK(std::is_sorted(out->begin(), out->end()));
  return *out;
}

/// Arrivals per second within [from, to).
double rate_within(const arrival_times& all, microseconds from,
                   microseconds to) {
  auto begin = std::lower_bound(all.begin(), all.end(), from);
  return static_cast<double>(std::lower_bound(begin, all.end(), to) - begin)
         / to_seconds(to - from);
}

double cv_of(const std::vector<double>& gaps) {
  double sum = 0, squares = 0;
  for (auto gap : gaps) {
    sum += gap;
    squares += gap * gap;
  }
  auto n = static_cast<double>(gaps.size());
  return std::sqrt(squares / n - sum / n * sum / n) / (sum / n);
}

double cv_of_gaps(const arrival_times& all) {
  std::vector<double> gaps;
  for (size_t i = 1; i < all.size(); ++i)
    gaps.push_back(to_seconds(all[i] - all[i - 1]));
  return cv_of(gaps);
}

/// The arrivals of one function.
arrival_times only(const arrival_times& all,
                   const std::vector<uint32_t>& function, uint32_t which) {
  REQUIRE(all.size() == function.size());
  arrival_times out;
  for (size_t i = 0; i < all.size(); ++i)
    if (function[i] == which)
      out.push_back(all[i]);
  return out;
}

/// A file of rates: 100 a second for 100 s, then 300 a second for 100 s.
std::string two_rates(const temporary_directory& folder) {
  auto file = folder.path() + "/rates.csv";
  std::ofstream out{file};
  for (int second = 0; second < 200; ++second)
    out << (second < 100 ? 100 : 300) << '\n';
  return file;
}

} // namespace

TEST_CASE("arrivals: each gamma function has its rate and its cv") {
  auto x = part_of(arrival_process::functions, 60);
  x.functions = 3;
  x.tail = 1;
  x.each = function_process::gamma;
  for (auto cv : {0.5, 3.0}) {
    CAPTURE(cv);
    x.cv = cv;
    std::vector<uint32_t> function;
    auto all = arrivals_of(x, 20'000s, &function);
    CHECK(rate_within(all, 0s, 20'000s) == doctest::Approx(60).epsilon(0.02));
    for (uint32_t i = 0; i < 3; ++i) {
      auto own = only(all, function, i);
      auto wanted = 60 / (1 + 0.5 + 1.0 / 3) / (i + 1);
      CHECK(rate_within(own, 0s, 20'000s)
            == doctest::Approx(wanted).epsilon(0.02));
      CHECK(cv_of_gaps(own) == doctest::Approx(cv).epsilon(0.05));
    }
  }
}

TEST_CASE("arrivals: an on-off function is silent between its bursts and keeps "
          "its mean rate") {
  auto x = part_of(arrival_process::functions, 100);
  x.functions = 2;
  x.tail = 1;
  x.each = function_process::on_off;
  x.burst_part = 0.25;
  x.burst_length = 1s;
  std::vector<uint32_t> function;
  constexpr auto length = 40'000s;
  auto all = arrivals_of(x, length, &function);
  CHECK(rate_within(all, 0s, length) == doctest::Approx(100).epsilon(0.02));
  // The busier function has 2/3 of the rate and runs 4 times as high during a
  // burst. A gap of more than 0.2 s is a pause: pauses last 3 s on average, and
  // gaps within a burst 3.75 ms.
  auto own = only(all, function, 0);
  double silent = 0;
  for (size_t i = 1; i < own.size(); ++i)
    if (auto gap = own[i] - own[i - 1]; gap > 200ms)
      silent += to_seconds(gap);
  CHECK(silent / to_seconds(length) == doctest::Approx(0.75).epsilon(0.02));
}

TEST_CASE("arrivals: overlapping surges multiply the rate while they last") {
  auto x = part_of(arrival_process::poisson, 100);
  x.surges = {{100s, 100s, 5, 0us}, {150s, 100s, 2, 400s}};
  auto all = arrivals_of(x, 800s);
  auto rate = [&](microseconds from, microseconds to) {
    return rate_within(all, from, to);
  };
  CHECK(rate(0s, 100s) == doctest::Approx(100).epsilon(0.03));
  CHECK(rate(100s, 150s) == doctest::Approx(500).epsilon(0.02));
  CHECK(rate(150s, 200s) == doctest::Approx(1000).epsilon(0.02));
  CHECK(rate(200s, 250s) == doctest::Approx(200).epsilon(0.03));
  CHECK(rate(250s, 550s) == doctest::Approx(100).epsilon(0.02));
  CHECK(rate(550s, 650s) == doctest::Approx(200).epsilon(0.02));
  CHECK(rate(650s, 800s) == doctest::Approx(100).epsilon(0.03));
}

TEST_CASE("arrivals: a surge with factor 0 is a silence") {
  auto x = part_of(arrival_process::gamma, 100);
  x.cv = 2;
  x.surges = {{10s, 5s, 0, 0us}};
  auto all = arrivals_of(x, 60s);
  CHECK(rate_within(all, 10'000'001us, 14'999'999us) == 0);
  CHECK(rate_within(all, 15s, 60s) > 50);
}

TEST_CASE("arrivals: the daily swing has its depth, its peak and the mean"
          " rate") {
  auto x = part_of(arrival_process::poisson, 100);
  x.diurnal.depth = 0.8;
  x.diurnal.period = 1000s;
  x.diurnal.peak_at = 250s;
  auto all = arrivals_of(x, 10'000s);
  CHECK(rate_within(all, 0s, 10'000s) == doctest::Approx(100).epsilon(0.02));
  double high = 0, low = 0, middle = 0;
  for (int day = 0; day < 10; ++day) {
    auto at = [&](microseconds time) { return 1000s * day + time; };
    high += rate_within(all, at(240s), at(260s)) / 10;
    low += rate_within(all, at(740s), at(760s)) / 10;
    middle += rate_within(all, at(490s), at(510s)) / 10;
  }
  CHECK(high == doctest::Approx(180).epsilon(0.02));
  CHECK(low == doctest::Approx(20).epsilon(0.06)); // 4,000 arrivals
  CHECK(middle == doctest::Approx(100).epsilon(0.03));
}

TEST_CASE("arrivals: a gamma process keeps its cv within a surge") {
  auto x = part_of(arrival_process::gamma, 100);
  x.cv = 3;
  x.surges = {{0us, 2000s, 4, 0us}};
  auto all = arrivals_of(x, 2000s);
  CHECK(rate_within(all, 0s, 2000s) == doctest::Approx(400).epsilon(0.02));
  CHECK(cv_of_gaps(all) == doctest::Approx(3).epsilon(0.05));
}

TEST_CASE(
  "arrivals: a trace refitted to a cv has the rates of the file and that"
  " cv") {
  temporary_directory folder;
  auto x = part_of(arrival_process::refit, 1);
  x.file = two_rates(folder);
  x.scale = 20;
  for (auto cv : {0.5, 4.0}) {
    CAPTURE(cv);
    x.cv = cv;
    auto all = arrivals_of(x, 300s);
    CHECK(rate_within(all, 0s, 100s) == doctest::Approx(2000).epsilon(0.02));
    CHECK(rate_within(all, 100s, 200s) == doctest::Approx(6000).epsilon(0.02));
    CHECK(rate_within(all, 200s, 300s) == 0);
    auto first = std::lower_bound(all.begin(), all.end(), 100s);
    CHECK(cv_of_gaps({all.begin(), first})
          == doctest::Approx(cv).epsilon(0.05));
    CHECK(cv_of_gaps({first, all.end()}) == doctest::Approx(cv).epsilon(0.05));
  }
}

TEST_CASE("arrivals: peak is the rate of the file's busiest second") {
  temporary_directory folder;
  auto x = part_of(arrival_process::rates, 1);
  x.file = two_rates(folder);
  x.peak = 30;
  auto all = arrivals_of(x, 300s);
  CHECK(rate_within(all, 0s, 100s) == 10);
  CHECK(rate_within(all, 100s, 200s) == 30);
  auto times = folder.path() + "/times.csv";
  std::ofstream{times} << "10\n10.2\n10.4\n11.5\n";
  x = part_of(arrival_process::times, 1);
  x.file = times;
  x.peak = 6; // three arrivals in the busiest second
  CHECK(arrivals_of(x, 10s).size() == 8);
}

TEST_CASE("arrivals: an offset begins inside the file and wraps at its end") {
  temporary_directory folder;
  auto x = part_of(arrival_process::rates, 1);
  x.file = two_rates(folder);
  x.offset = 150s;
  auto all = arrivals_of(x, 300s);
  CHECK(all.size() == 40'000);
  CHECK(rate_within(all, 0s, 50s) == 300);
  CHECK(rate_within(all, 50s, 150s) == 100);
  CHECK(rate_within(all, 150s, 200s) == 300);
  x.offset = 1500ms;
  CHECK_FALSE(make_arrivals(x, 300s, random_stream{1}));
  auto times = folder.path() + "/times.csv";
  std::ofstream{times} << "10\n11\n12.5\n";
  x = part_of(arrival_process::times, 1);
  x.file = times;
  x.offset = 2s;
  CHECK(arrivals_of(x, 10s) == arrival_times{500ms, 1s, 2s});
}

TEST_CASE(
  "arrivals: with a granularity all arrivals of a period come at its start") {
  auto x = part_of(arrival_process::poisson, 100);
  x.granularity = 350ms;
  auto all = arrivals_of(x, 2000s);
  CHECK(rate_within(all, 0s, 2000s) == doctest::Approx(100).epsilon(0.02));
  CHECK(std::all_of(all.begin(), all.end(),
                    [](auto at) { return at % 350ms == 0us; }));
  // The counts per period follow a Poisson distribution of mean 35.
  std::vector<double> counts(static_cast<size_t>(2000s / 350ms));
  for (auto at : all)
    if (auto i = static_cast<size_t>(at / 350ms); i < counts.size())
      ++counts[i];
  CHECK(cv_of(counts) == doctest::Approx(1 / std::sqrt(35)).epsilon(0.05));
}

TEST_CASE("arrivals: every process gives the exact number of requests") {
  temporary_directory folder;
  for (auto process : {arrival_process::poisson, arrival_process::constant,
                       arrival_process::gamma, arrival_process::bursts,
                       arrival_process::ramp, arrival_process::functions,
                       arrival_process::rates, arrival_process::refit}) {
    CAPTURE(to_string(process));
    auto x = part_of(process, 1);
    x.to_rate = 3;
    x.cv = 2;
    if (is_from_file(process))
      x.file = two_rates(folder);
    for (auto wanted : {1, 10, 30'000}) {
      x.requests = static_cast<uint64_t>(wanted);
      std::vector<uint32_t> function;
      auto all = arrivals_of(x, 200s, &function);
      CHECK(all.size() == x.requests);
      CHECK(all.back() < 200s);
      CHECK((function.empty() || function.size() == all.size()));
    }
  }
}

TEST_CASE("arrivals: an exact number of requests keeps the process") {
  auto x = part_of(arrival_process::poisson, 1);
  x.requests = 100'000;
  auto all = arrivals_of(x, 1000s);
  CHECK(cv_of_gaps(all) == doctest::Approx(1).epsilon(0.02));
  CHECK(rate_within(all, 0s, 500s) == doctest::Approx(100).epsilon(0.02));
  x.arrivals = arrival_process::gamma;
  x.cv = 3;
  CHECK(cv_of_gaps(arrivals_of(x, 1000s)) == doctest::Approx(3).epsilon(0.05));
  x.arrivals = arrival_process::constant;
  CHECK(cv_of_gaps(arrivals_of(x, 1000s)) < 0.001);
  x.arrivals = arrival_process::ramp;
  x.rate = 1;
  x.to_rate = 3;
  all = arrivals_of(x, 1000s);
  CHECK(rate_within(all, 0s, 500s) == doctest::Approx(75).epsilon(0.02));
}

TEST_CASE("arrivals: a file with too few arrivals for the requested number is "
          "refused if no scale helps") {
  temporary_directory folder;
  auto x = part_of(arrival_process::rates, 1);
  x.file = folder.path() + "/none.csv";
  std::ofstream{x.file} << "0\n0\n";
  x.requests = 10;
  CHECK_FALSE(make_arrivals(x, 10s, random_stream{1}));
}

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "simulator/arrivals.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

struct moments {
  double rate = 0;
  double cv = 0; ///< coefficient of variation of the gaps
};

moments measure(const arrival_times& xs, microseconds length) {
  double sum = 0, squares = 0;
  for (size_t i = 1; i < xs.size(); ++i) {
    auto gap = to_seconds(xs[i] - xs[i - 1]);
    sum += gap;
    squares += gap * gap;
  }
  auto n = static_cast<double>(xs.size() - 1);
  auto mean = sum / n;
  return {static_cast<double>(xs.size()) / to_seconds(length),
          std::sqrt(squares / n - mean * mean) / mean};
}

moments of(const workload_part& x, microseconds length = 2000s) {
  auto found = make_arrivals(x, length, random_stream{11});
  REQUIRE(found);
  CHECK(std::is_sorted(found->begin(), found->end()));
  return measure(*found, length);
}

workload_part by(arrival_process process, double rate) {
  workload_part out;
  out.arrivals = process;
  out.rate = rate;
  return out;
}

} // namespace

TEST_CASE("arrivals: a Poisson process has its rate and a cv of 1") {
  auto found = of(by(arrival_process::poisson, 100));
  CHECK(found.rate == doctest::Approx(100).epsilon(0.02));
  CHECK(found.cv == doctest::Approx(1).epsilon(0.02));
}

TEST_CASE("arrivals: constant arrivals are evenly spaced") {
  auto found = of(by(arrival_process::constant, 50));
  CHECK(found.rate == doctest::Approx(50).epsilon(0.001));
  CHECK(found.cv < 0.001);
}

TEST_CASE("arrivals: a gamma process has its rate and its cv") {
  for (auto cv : {0.25, 0.5, 1.0, 2.0, 4.0, 8.0}) {
    auto x = by(arrival_process::gamma, 100);
    x.cv = cv;
    auto found = of(x, 10'000s);
    CAPTURE(cv);
    auto within = cv < 8 ? 0.05 : 0.1;
    CHECK(found.rate == doctest::Approx(100).epsilon(within));
    CHECK(found.cv == doctest::Approx(cv).epsilon(within));
  }
}

TEST_CASE("arrivals: a gamma process has its rate from the first second on") {
  // A process that began with a whole gap would have about half of the
  // arrivals.
  auto x = by(arrival_process::gamma, 1);
  x.cv = 8;
  size_t n = 0;
  constexpr size_t runs = 4000;
  for (uint64_t seed = 1; seed <= runs; ++seed)
    n += make_arrivals(x, 60s, random_stream{seed})->size();
  CHECK(static_cast<double>(n) / runs == doctest::Approx(60).epsilon(0.08));
}

TEST_CASE("arrivals: bursts keep the mean rate and raise the cv") {
  auto x = by(arrival_process::bursts, 100);
  x.burst = 8;
  x.burst_part = 0.1;
  x.burst_length = 2s;
  auto found = of(x, 20'000s);
  CHECK(found.rate == doctest::Approx(100).epsilon(0.05));
  CHECK(found.cv > 1.15);
}

TEST_CASE("arrivals: a ramp changes evenly from one rate to the other") {
  auto x = by(arrival_process::ramp, 20);
  x.to_rate = 100;
  auto found = make_arrivals(x, 1000s, random_stream{3});
  REQUIRE(found);
  auto in = [&](microseconds from, microseconds to) {
    return static_cast<double>(
             std::lower_bound(found->begin(), found->end(), to)
             - std::lower_bound(found->begin(), found->end(), from))
           / to_seconds(to - from);
  };
  CHECK(in(0s, 1000s) == doctest::Approx(60).epsilon(0.02));
  CHECK(in(0s, 100s) == doctest::Approx(24).epsilon(0.05));
  CHECK(in(900s, 1000s) == doctest::Approx(96).epsilon(0.05));
}

TEST_CASE("arrivals: functions' rates fall with a power of their rank") {
  auto x = by(arrival_process::functions, 100);
  x.functions = 50;
  x.tail = 1;
  std::vector<uint32_t> which;
  auto found = make_arrivals(x, 2000s, random_stream{5}, &which);
  REQUIRE(found);
  REQUIRE(which.size() == found->size());
  std::vector<double> count(50);
  for (auto f : which)
    ++count[f];
  CHECK(count[0] / count[1] == doctest::Approx(2).epsilon(0.05));
  CHECK(count[0] / count[9] == doctest::Approx(10).epsilon(0.08));
}

TEST_CASE(
  "arrivals: a trace of rates is followed second by second with its scale") {
  temporary_directory folder;
  auto file = folder.path() + "/t.csv";
  std::ofstream{file} << "second,requests\n0,10\n1,0\n2,4\n";
  auto x = by(arrival_process::rates, 1);
  x.file = file;
  x.scale = 2;
  auto found = make_arrivals(x, 10s, random_stream{1});
  REQUIRE(found);
  CHECK(found->size() == 28);
  CHECK((*found)[19] < 1s);
  CHECK((*found)[20] >= 2s);
}

TEST_CASE("arrivals: a trace of times begins with its first arrival") {
  temporary_directory folder;
  auto file = folder.path() + "/t.csv";
  std::ofstream{file} << "app,seconds\na,12.5\nb,10\na,11\n";
  auto x = by(arrival_process::times, 1);
  x.file = file;
  auto found = make_arrivals(x, 10s, random_stream{1});
  REQUIRE(found);
  CHECK(*found == arrival_times{0s, 1s, 2500ms});
}

TEST_CASE(
  "arrivals: a value that is not a number is reported with its file and line") {
  temporary_directory folder;
  auto file = folder.path() + "/t.csv";
  std::ofstream{file} << "1\nmany\n";
  auto x = by(arrival_process::rates, 1);
  x.file = file;
  auto found = make_arrivals(x, 10s, random_stream{1});
  REQUIRE_FALSE(found);
  CHECK(found.failure().text.find("t.csv:2: expected requests per second,"
                                  " at most 1e9, found 'many'")
        != std::string::npos);
}

TEST_CASE("arrivals: an empty or truncated file is refused") {
  temporary_directory folder;
  auto file = folder.path() + "/t.csv";
  auto x = by(arrival_process::rates, 1);
  x.file = file;
  auto error_of = [&](const std::string& text) {
    std::ofstream{file} << text;
    auto found = make_arrivals(x, 10s, random_stream{1});
    REQUIRE_FALSE(found);
    return found.failure().text;
  };
  CHECK(error_of("") == file + ": has no requests per second");
  CHECK(error_of("second,requests\n") == file + ": has no requests per second");
  // A negative number is no heading. An empty line would shift all later
  // seconds.
  CHECK(error_of("-3\n10\n").find("t.csv:1: expected") != std::string::npos);
  CHECK(error_of("10\n\n5\n").find("t.csv:2: expected") != std::string::npos);
  CHECK(error_of("10\n5" + std::string(5000, ' ') + "x\n").find("t.csv:2:")
        != std::string::npos);
  CHECK(error_of("3x\n10\n").find("t.csv:1: expected") != std::string::npos);
  CHECK(error_of(std::string(400, '9') + "\n").find("t.csv:1: expected")
        != std::string::npos);
  CHECK(error_of("1\n1e30\n").find("t.csv:2: expected") != std::string::npos);
  CHECK(error_of("1\ninf\n").find("t.csv:2: expected") != std::string::npos);
  // The first half of a gzipped "1\n2\n3\n".
  CHECK(error_of(std::string{"\x1f\x8b\x08\0\0\0\0\0\0\x03\x33\xe4\x32", 13})
        == file + ": is damaged, or ends in the middle");
}

TEST_CASE("arrivals: a byte order mark is not read as a heading") {
  temporary_directory folder;
  auto x = by(arrival_process::rates, 1);
  x.file = folder.path() + "/t.csv";
  std::ofstream{x.file} << "\xEF\xBB\xBF"
                           "5\n3\n";
  auto found = make_arrivals(x, 10s, random_stream{1});
  REQUIRE(found);
  CHECK(found->size() == 8);
}

TEST_CASE("arrivals: a rate with more arrivals than fit in memory is refused") {
  auto x = by(arrival_process::poisson, 1e7);
  CHECK_FALSE(make_arrivals(x, 3600s, random_stream{1}));
}

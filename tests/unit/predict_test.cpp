// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <vector>

#include "actors/policies/predict/forecast.hpp"
#include "actors/policies/predict/queueing.hpp"

using namespace millrace;

namespace {

queueing_station station_of(double arrivals, double rate, uint64_t servers) {
  queueing_station out;
  out.arrivals = arrivals;
  out.service = 1 / rate;
  out.servers = servers;
  return out;
}

bool is_within(double found, double expected, double error = 1e-6) {
  return std::abs(found - expected) < error;
}

} // namespace

TEST_CASE("QU-09: Erlang C and the printed equation 1 give the table of the"
          " digest to 1e-6") {
  struct row {
    double arrivals, rate;
    uint64_t servers;
    double empty, waits, printed, correct; // empty < 0: not in the table
  };
  const row table[] = {{4, 5, 1, 0.200000, 0.800000, 0.360000, 1.000000},
                       {4.95, 5, 1, 0.010000, 0.990000, 0.398000, 20.000000},
                       {8, 5, 2, 0.111111, 0.711111, 0.288889, 0.555556},
                       {9.9, 5, 2, 0.005025, 0.985025, 0.299497, 10.050251},
                       {16, 5, 4, 0.027303, 0.596432, 0.221842, 0.349108},
                       {19.8, 5, 4, 0.000954, 0.977905, 0.218897, 5.089526},
                       {100, 58.394, 2, 0.077440, 0.789944, 0.025024, 0.064179},
                       {100, 58.394, 3, -1, 0.318210, -1, 0.021358}};
  for (auto& x : table) {
    CAPTURE(x.arrivals);
    CAPTURE(x.servers);
    auto station = station_of(x.arrivals, x.rate, x.servers);
    CHECK(is_within(erlang_c(station.offered(), x.servers), x.waits));
    CHECK(is_within(mean_delay(station, delay_formula::erlang_c), x.correct));
    if (x.empty < 0)
      continue;
    CHECK(is_within(empty_probability(station.offered(), x.servers), x.empty));
    CHECK(is_within(mean_delay(station, delay_formula::printed), x.printed));
  }
}

TEST_CASE("queueing: a station without capacity has the delay of its queue and "
          "at least the given delay") {
  auto full = station_of(20, 5, 4);
  full.waiting = 40;
  for (auto by : {delay_formula::erlang_c, delay_formula::allen_cunneen,
                  delay_formula::printed}) {
    full.saturated = 0;
    CHECK(mean_delay(full, by) == doctest::Approx(40 / 20.0 + 0.2));
    full.saturated = 5;
    CHECK(mean_delay(full, by) == 5);
  }
}

TEST_CASE("queueing: Allen and Cunneen scale the wait by both variations") {
  auto even = station_of(8, 5, 2);
  even.service_cv = 0;
  even.arrival_cv = 4;
  auto wait = mean_delay(even, delay_formula::erlang_c) - 0.2;
  CHECK(mean_delay(even, delay_formula::allen_cunneen)
        == doctest::Approx(8 * wait + 0.2));
}

TEST_CASE("queueing: servers_for gives the fewest servers within a target") {
  auto x = station_of(100, 58.394, 1);
  CHECK(servers_for(x, delay_formula::erlang_c, 0.065, 100) == 2);
  CHECK(servers_for(x, delay_formula::erlang_c, 0.064, 100) == 3);
  CHECK(servers_for(x, delay_formula::erlang_c, 0.001, 12) == 12);
  x.arrivals = 0;
  CHECK(servers_for(x, delay_formula::erlang_c, 1, 100) == 1);
}

TEST_CASE("forecast: each method predicts a series and has an error") {
  const std::vector<double> series{10, 20, 30, 40};
  forecast_options by;
  by.method = forecast_method::last;
  CHECK(forecast(series, by) == 40);
  CHECK(forecast_error(series, by) == doctest::Approx(10));
  by.method = forecast_method::ewma;
  CHECK(forecast(series, by) == doctest::Approx(31.25));
  by.method = forecast_method::holt;
  by.beta = 1; // level 15, 25, 37.5 and trend 5, 10, 12.5
  CHECK(forecast(series, by) == doctest::Approx(50));
  by.method = forecast_method::quantile;
  by.quantile = 0.5;
  CHECK(forecast(series, by) == 20);
  by.window = 2;
  CHECK(forecast(series, by) == 30);
  CHECK(forecast({}, by) == 0);
}

TEST_CASE("forecast: a falling trend ends at 0") {
  const std::vector<double> series{100, 50, 0};
  forecast_options by;
  by.method = forecast_method::holt;
  by.alpha = by.beta = 1;
  CHECK(forecast(series, by) == 0);
}

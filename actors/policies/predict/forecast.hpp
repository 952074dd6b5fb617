// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "runtime/fields.hpp"
#include "runtime/names.hpp"

namespace millrace {

/// How the next value of a series is predicted.
enum class forecast_method : uint8_t {
  last,    ///< the previous value
  ewma,    ///< exponentially weighted mean
  holt,    ///< the same with a trend
  quantile ///< of the latest values
};

constexpr auto names_of(forecast_method) {
  return name_table{"last", "ewma", "holt", "quantile"};
}

struct forecast_options {
  forecast_method method = forecast_method::ewma;
  double alpha = 0.5;
  double beta = 0.1;
  double quantile = 0.95;
  uint64_t window = 60;
  MILLRACE_FIELDS(forecast_options, method, alpha, beta, quantile, window)
  static constexpr auto notes() {
    return std::array{
      note{"last: the value before; ewma: a mean that forgets; holt: the same"
           " with a trend; quantile: of the latest values"},
      note{"weight of the newest value in the level", 0.001, 1},
      note{"weight of the newest difference in the trend", 0, 1},
      note{"which quantile", 0, 1},
      note{"values that the quantile is taken of", 1, 100'000}};
  }
};

/// The next value of an equidistant series, oldest value first; never below 0,
/// and 0 for an empty series. ewma and holt begin with the first value, and
/// holt without a trend. PALDIA, section IV-C, uses ewma and gives no smoothing
/// factors.
double forecast(std::span<const double> series, const forecast_options& by);

/// The mean absolute error of the forecasts of all values but the first; 0 for
/// an empty series.
double forecast_error(std::span<const double> series,
                      const forecast_options& by);

} // namespace millrace

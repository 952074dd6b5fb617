// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/predict/forecast.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace millrace {

namespace {

/// Level and trend of Holt's linear method; without a trend, of an
/// exponentially weighted mean.
double smoothed(std::span<const double> series, double alpha, double beta) {
  double level = series.front(), trend = 0;
  for (auto value : series.subspan(1)) {
    auto before = level;
    level = alpha * value + (1 - alpha) * (level + trend);
    trend = beta * (level - before) + (1 - beta) * trend;
  }
  return level + trend;
}

/// The smallest value that at least the fraction q of the latest values do not
/// exceed.
double quantile_of(std::span<const double> series, double q) {
  std::vector<double> sorted{series.begin(), series.end()};
  auto rank =
    static_cast<size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  auto nth =
    sorted.begin() + static_cast<ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::nth_element(sorted.begin(), nth, sorted.end());
  return *nth;
}

} // namespace

double forecast(std::span<const double> series, const forecast_options& by) {
  if (series.empty())
    return 0;
  switch (by.method) {
  case forecast_method::last:
    return std::max(0.0, series.back());
  case forecast_method::ewma:
    return std::max(0.0, smoothed(series, by.alpha, 0));
  case forecast_method::holt:
    return std::max(0.0, smoothed(series, by.alpha, by.beta));
  case forecast_method::quantile:
    break;
  }
  auto latest = std::min<size_t>(series.size(), by.window);
  return std::max(0.0, quantile_of(series.last(latest), by.quantile));
}

double forecast_error(std::span<const double> series,
                      const forecast_options& by) {
  if (series.size() < 2)
    return 0;
  double sum = 0;
  for (size_t i = 1; i < series.size(); ++i)
    sum += std::abs(forecast(series.first(i), by) - series[i]);
  return sum / static_cast<double>(series.size() - 1);
}

} // namespace millrace

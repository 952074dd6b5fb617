// SPDX-License-Identifier: Apache-2.0
#include "millrace/statistics.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace millrace {

double t_quantile(size_t freedom) {
  constexpr std::array table{12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469,
                             2.3646,  2.3060, 2.2622, 2.2281, 2.2010, 2.1788,
                             2.1604,  2.1448, 2.1314, 2.1199, 2.1098, 2.1009,
                             2.0930,  2.0860, 2.0796, 2.0739, 2.0687, 2.0639,
                             2.0595,  2.0555, 2.0518, 2.0484, 2.0452, 2.0423};
  if (freedom == 0)
    return std::numeric_limits<double>::quiet_NaN();
  if (freedom <= table.size())
    return table[freedom - 1];
  // Cornish-Fisher expansion around the normal quantile (Abramowitz and Stegun,
  // 26.7.5): the error is below 1e-4 from here on.
  constexpr double z = 1.959964;
  auto n = static_cast<double>(freedom);
  return z + (std::pow(z, 3) + z) / (4 * n)
         + (5 * std::pow(z, 5) + 16 * std::pow(z, 3) + 3 * z) / (96 * n * n);
}

double arithmetic_mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0)
         / static_cast<double>(values.size());
}

double geometric_mean(std::span<const double> values) {
  double sum = 0;
  for (auto x : values)
    sum += x > 0 ? std::log(x) : std::numeric_limits<double>::quiet_NaN();
  return std::exp(sum / static_cast<double>(values.size()));
}

interval_mean mean_with_interval(std::span<const double> values) {
  interval_mean out;
  out.count = values.size();
  if (values.empty())
    return out;
  out.mean = arithmetic_mean(values);
  if (values.size() < 2)
    return out;
  double squares = 0;
  for (auto x : values)
    squares += (x - out.mean) * (x - out.mean);
  auto n = static_cast<double>(values.size());
  out.half_width =
    t_quantile(values.size() - 1) * std::sqrt(squares / (n - 1) / n);
  return out;
}

} // namespace millrace

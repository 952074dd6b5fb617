// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace millrace {

/// Mean of a sample with its 95 % confidence interval.
struct interval_mean {
  size_t count = 0;
  double mean = 0;
  /// Half the width of the interval, by Student's t distribution; 0 for fewer
  /// than two values.
  double half_width = 0;
};

/// The mean of independent and roughly normal values.
interval_mean mean_with_interval(std::span<const double> values);

/// The 0.975 quantile of Student's t distribution; `freedom` is at least 1.
double t_quantile(size_t freedom);

double arithmetic_mean(std::span<const double> values);

/// For values above 0; otherwise not a number.
double geometric_mean(std::span<const double> values);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace millrace {

/// Mean of a sample with its 95 % confidence interval.
struct interval_mean {
  size_t count = 0;
  double mean = 0;
  /// Half the width of the interval by Student's t distribution; 0 with fewer
  /// than two values, which give none.
  double half_width = 0;
};

/// The mean of values that are independent and roughly normal.
interval_mean mean_with_interval(std::span<const double> values);

/// The 0.975 quantile of Student's t distribution; `freedom` is at least 1.
double t_quantile(size_t freedom);

double arithmetic_mean(std::span<const double> values);

/// Of values above 0; not a number where one is not.
double geometric_mean(std::span<const double> values);

} // namespace millrace

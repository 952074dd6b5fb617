// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

namespace millrace {

/// Measured values and their quantiles.
class samples {
public:
  void add(double value) {
    values_.push_back(value);
    sorted_ = false;
  }

  /// The value below which a share q of the samples lies; 0 without samples.
  double quantile(double q) {
    if (values_.empty())
      return 0;
    auto i =
      static_cast<size_t>(q * static_cast<double>(values_.size() - 1) + 0.5);
    return sorted()[i];
  }

  /// 0 without samples.
  double mean() const {
    return values_.empty()
             ? 0
             : std::accumulate(values_.begin(), values_.end(), 0.0)
                 / static_cast<double>(values_.size());
  }

  /// All samples in ascending order.
  const std::vector<double>& sorted() {
    if (!sorted_)
      std::sort(values_.begin(), values_.end());
    sorted_ = true;
    return values_;
  }

  /// The share of samples up to limit.
  double part_up_to(double limit) {
    auto& xs = sorted();
    return static_cast<double>(std::upper_bound(xs.begin(), xs.end(), limit)
                               - xs.begin())
           / static_cast<double>(std::max<size_t>(1, xs.size()));
  }

  size_t size() const { return values_.size(); }

private:
  std::vector<double> values_;
  bool sorted_ = false;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

namespace millrace {

/// Measured values and their quantiles.
class samples {
public:
  void add(double x) {
    values_.push_back(x);
    sorted_ = false;
  }

  /// The value below which a share q of the samples lies; 0 without samples.
  double quantile(double q) {
    if (values_.empty())
      return 0;
    if (!sorted_)
      std::sort(values_.begin(), values_.end());
    sorted_ = true;
    auto i =
      static_cast<size_t>(q * static_cast<double>(values_.size() - 1) + 0.5);
    return values_[i];
  }

  size_t size() const { return values_.size(); }

private:
  std::vector<double> values_;
  bool sorted_ = false;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "runtime/time.hpp"

namespace millrace {

/// Execution time of a batch as a linear function of its rows, fitted to the
/// latest batches with exponential decay. A batch that took longer than
/// expected has more weight: an estimate that is too low wastes device time.
class batch_times {
public:
  void add(uint64_t rows, microseconds took) {
    auto r = static_cast<double>(rows), t = to_seconds(took);
    auto part = !known_ ? 1. : took > expected(rows) ? 1. / 2 : 1. / 8;
    known_ = true;
    rows_ += part * (r - rows_);
    time_ += part * (t - time_);
    square_ += part * (r * r - square_);
    product_ += part * (r * t - product_);
  }

  /// Expected time of a batch with `rows` rows; 0 without any batch yet.
  /// Constant while all batches had equally many rows.
  microseconds expected(uint64_t rows) const {
    auto each = 0.;
    auto variance = square_ - rows_ * rows_;
    if (variance > least_variation * rows_ * rows_)
      each = std::clamp((product_ - rows_ * time_) / variance, 0.,
                        time_ / std::max(1., rows_));
    auto out = time_ + each * (static_cast<double>(rows) - rows_);
    return to_us(std::chrono::duration_cast<nanoseconds>(
      std::chrono::duration<double>{std::max(0., out)}));
  }

private:
  static constexpr double least_variation = 1e-3;

  bool known_ = false;
  double rows_ = 0, time_ = 0, square_ = 0, product_ = 0; ///< means
};

} // namespace millrace

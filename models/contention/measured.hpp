// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <utility>

#include "models/profile.hpp"

namespace millrace {

/// Slowdown of batches of one model that run at once, from execution times
/// measured with 1, 2 and more batches (PALDIA, the "profiled" contention of
/// its digest, 3.3).
class measured_contention {
public:
  /// `seconds`: execution time by rows with that number of batches at once.
  /// The times with one batch are the base of all slowdowns.
  void add(double at_once, curve seconds) {
    times_[at_once] = std::move(seconds);
  }

  /// Whether two numbers of batches were measured, 1 among them.
  bool known() const { return times_.size() > 1 && times_.contains(1); }

  /// At least 1; requires known(). Linear between measured numbers of batches;
  /// beyond them the last line is extended.
  double slowdown(double rows, double at_once) const {
    curve by_number;
    for (auto& [number, seconds] : times_)
      by_number.add(number, seconds.at(rows));
    auto alone = by_number.at(1);
    return alone > 0 ? std::max(1.0, by_number.at(at_once) / alone) : 1;
  }

private:
  std::map<double, curve> times_;
};

} // namespace millrace

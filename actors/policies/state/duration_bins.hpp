// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "transport/messages/demand.hpp"

namespace millrace {

/// The bin of `duration_bins` that counts this duration.
inline size_t duration_bin(microseconds duration) {
  auto us = static_cast<uint64_t>(std::max<int64_t>(1, duration.count()));
  auto width = static_cast<size_t>(std::bit_width(us));
  auto quarter = (width < 3 ? us << (3 - width) : us >> (width - 3)) & 3;
  return std::min(4 * (width - 1) + quarter, duration_bins::most - 1);
}

/// The shortest duration of a bin, in seconds.
inline double begin_of_duration_bin(size_t bin) {
  auto doubling = 1e-6 * static_cast<double>(uint64_t{1} << (bin / 4));
  return doubling * (1 + static_cast<double>(bin % 4) / 4);
}

/// Durations in bins, with weights that decay with age: a third after `memory`.
class fading_durations {
public:
  explicit fading_durations(microseconds memory) : memory_(memory) {}

  /// Adds the durations counted between two reports of one gateway.
  void add(const duration_bins& was, const duration_bins& is, timestamp now);

  /// Seconds; 0 while no duration was counted.
  double quantile(double q) const;

private:
  microseconds memory_;
  std::vector<double> weights_; ///< by number of the bin
  timestamp at_;
};

} // namespace millrace

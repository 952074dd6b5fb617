// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/state/duration_bins.hpp"

#include <cmath>
#include <numeric>

namespace millrace {

void fading_durations::add(const duration_bins& was, const duration_bins& is,
                           timestamp now) {
  std::vector<double> more(duration_bins::most);
  for (size_t i = 0; i < is.counts.size(); ++i)
    more[is.first + i] += static_cast<double>(is.counts[i]);
  for (size_t i = 0; i < was.counts.size(); ++i)
    more[was.first + i] -= static_cast<double>(was.counts[i]);
  if (std::all_of(more.begin(), more.end(), [](auto x) { return x <= 0; }))
    return; // without new values the weights stay
  auto age = to_seconds(std::max(nanoseconds{0}, now - at_));
  auto part = std::exp(-age / to_seconds(memory_));
  weights_.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i)
    weights_[i] = weights_[i] * part + more[i];
  at_ = std::max(at_, now);
}

double fading_durations::quantile(double q) const {
  auto left = q * std::accumulate(weights_.begin(), weights_.end(), 0.);
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > 0 && left <= weights_[i]) {
      auto begin = begin_of_duration_bin(i), end = begin_of_duration_bin(i + 1);
      return begin + (end - begin) * left / weights_[i];
    }
    left -= weights_[i];
  }
  return 0;
}

} // namespace millrace

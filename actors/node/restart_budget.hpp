// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>

#include "runtime/time.hpp"

namespace millrace {

/// The restart policy of an actor that crashes: the first restart is immediate,
/// then the pause doubles, with at most `most` restarts in any `window`. Pure.
class restart_budget {
public:
  explicit restart_budget(size_t most = 5, microseconds window = 60s)
    : most_(most),
      window_(window) {}

  /// The pause before the next start, or nothing when the budget is used up.
  std::optional<microseconds> on_crash(timestamp now) {
    while (!crashes_.empty() && now - crashes_.front() > window_)
      crashes_.pop_front();
    crashes_.push_back(now);
    if (crashes_.size() > most_)
      return std::nullopt;
    if (crashes_.size() == 1)
      return microseconds{0};
    return microseconds{50ms} * (1 << (crashes_.size() - 2));
  }

  size_t most() const { return most_; }

private:
  size_t most_;
  microseconds window_;
  std::deque<timestamp> crashes_;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <deque>

#include "runtime/time.hpp"

namespace millrace {

/// When to start a replica of a failing model again. Pure.
///
/// - The first retry is immediate (after 0.1 s). Then the pause doubles from 1
///   s to 30 s. A minute without failure resets the pause.
/// - A model with three failures within a minute is in quarantine.
/// - Failures within a pause count as one, because the loss of a device fails
///   all its replicas.
/// - The time that a failed start took does not count as time without failure.
class quarantine {
public:
  /// Records a failure of a replica that had tried to start for `trying`; 0 for
  /// a replica that was ready.
  void on_failure(timestamp now, nanoseconds trying = 0ns) {
    if (now < again_)
      return;
    for (auto& x : lately_) // several replicas may have started in parallel
      x = std::min(now, x + trying);
    if (is_over(now))
      failures_ = 0;
    ++failures_;
    while (!lately_.empty() && now - lately_.front() > window)
      lately_.pop_front();
    lately_.push_back(now);
    again_ = now + pause();
  }

  timestamp again() const { return again_; }

  bool is_in_force() const { return lately_.size() >= most; }

  /// Whether the model had no failure for a whole window.
  bool is_over(timestamp now) const {
    return lately_.empty() || now - lately_.back() > window;
  }

private:
  static constexpr size_t most = 3;
  static constexpr auto window = 60s;
  static constexpr nanoseconds longest = 30s;

  nanoseconds pause() const {
    return failures_ == 1
             ? nanoseconds{100ms}
             : std::min(longest,
                        nanoseconds{1s} * (1 << std::min(failures_ - 2, 5u)));
  }

  std::deque<timestamp> lately_; ///< within the window
  unsigned failures_ = 0;        ///< without a failure-free window in between
  timestamp again_{};
};

} // namespace millrace

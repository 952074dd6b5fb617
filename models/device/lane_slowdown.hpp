// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "runtime/time.hpp"

namespace millrace {

/// Emulates a device that is slower than its processors by a factor: after a
/// batch its lane waits for the rest of the batch's time on the slower device.
/// Any thread.
class lane_slowdown {
public:
  /// `pace`: times slower, at least 1.
  explicit lane_slowdown(double pace) : more_(std::max(1., pace) - 1) {}

  bool active() const { return more_ > 0; }

  /// Blocks for (pace - 1) times as long as the batch took, or until stop().
  void hold(nanoseconds took) {
    if (!active())
      return;
    std::unique_lock guard{mutex_};
    stopped_by_.wait_for(guard, more_ * std::chrono::duration<double>{took},
                         [this] { return stopped_; });
  }

  /// Ends all present and later waits.
  void stop() {
    {
      std::lock_guard guard{mutex_};
      stopped_ = true;
    }
    stopped_by_.notify_all();
  }

private:
  double more_; ///< additional wait per time of a batch
  std::mutex mutex_;
  std::condition_variable stopped_by_;
  bool stopped_ = false; ///< guarded
};

} // namespace millrace

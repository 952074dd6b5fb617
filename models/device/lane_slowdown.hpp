// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "runtime/time.hpp"

namespace millrace {

/// Makes a device slower than its processors by a factor: after a batch its
/// lane waits for the rest of the time that the batch takes on the slower
/// device. For any thread.
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

  /// Ends all waits, and those to come.
  void stop() {
    {
      std::lock_guard guard{mutex_};
      stopped_ = true;
    }
    stopped_by_.notify_all();
  }

private:
  double more_; ///< wait per time of a batch
  std::mutex mutex_;
  std::condition_variable stopped_by_;
  bool stopped_ = false; ///< guarded
};

} // namespace millrace

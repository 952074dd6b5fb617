// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <deque>

#include "runtime/time.hpp"

namespace millrace {

/// When a model whose replicas fail may be tried again: at once, then after a
/// pause that doubles from a second to half a minute; a minute without failure
/// begins anew. One that has failed three times within a minute is in
/// quarantine. Failures within a pause count as one: a device that goes takes
/// all its replicas with it. The time in which a replica tried to start, and
/// failed, counts for none: one that takes a minute to fail is no better. Pure.
class quarantine {
public:
  /// A replica of it has failed: after it had tried to start for so long, or
  /// after it was ready.
  void on_failure(timestamp now, nanoseconds trying = 0ns) {
    if (now < again_)
      return;
    for (auto& x : lately_) // several may have tried at the same time
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

  /// Whether it has not failed for so long that it is as good as any.
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
  unsigned failures_ = 0;        ///< with no such window between them
  timestamp again_{};
};

} // namespace millrace

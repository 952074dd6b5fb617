// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>

#include "runtime/time.hpp"

namespace millrace {

/// What there was memory for, of late: batches with more bytes of inputs are
/// run in pieces for a minute, then more is tried again. For any thread; a race
/// costs one more pass that fails.
class fitting_batch {
public:
  /// So many were too many.
  void exceeded_by(size_t bytes, timestamp now) {
    most_.store(bytes / 2, std::memory_order_relaxed);
    until_.store((now + remembered).time_since_epoch().count(),
                 std::memory_order_relaxed);
  }

  bool allows(size_t bytes, timestamp now) const {
    return bytes <= most_.load(std::memory_order_relaxed)
           || now.time_since_epoch().count()
                >= until_.load(std::memory_order_relaxed);
  }

private:
  static constexpr auto remembered = 1min;

  std::atomic<size_t> most_{SIZE_MAX};
  std::atomic<timestamp::rep> until_{0};
};

} // namespace millrace

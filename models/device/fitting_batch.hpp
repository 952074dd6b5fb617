// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>

#include "runtime/time.hpp"

namespace millrace {

/// The input bytes that recently fit into memory. Larger batches are run in
/// pieces for a minute, then larger ones are tried again. Any thread; a race
/// costs one more pass that fails.
class fitting_batch {
public:
  /// Notes that a batch with this many input bytes did not fit.
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

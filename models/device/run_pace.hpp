// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "runtime/time.hpp"

namespace millrace {

/// Learns how long runs take at most of late, for each byte of their inputs:
/// what a larger batch may take that has not been run yet. For any thread; a
/// race costs an estimate, nothing else.
class run_pace {
public:
  void learn(nanoseconds took, size_t bytes) {
    if (bytes == 0)
      return;
    constexpr double remembered = .875; ///< from one run to the next
    auto pace = static_cast<double>(took.count()) / static_cast<double>(bytes);
    auto before = slowest_.load(std::memory_order_relaxed);
    slowest_.store(std::max(pace, remembered * before),
                   std::memory_order_relaxed);
  }

  /// At most ten days; 0: nothing is known yet.
  nanoseconds expected(size_t bytes) const {
    constexpr double most = to_seconds(240h) * 1e9;
    auto took =
      slowest_.load(std::memory_order_relaxed) * static_cast<double>(bytes);
    return nanoseconds{static_cast<int64_t>(std::min(took, most))};
  }

private:
  std::atomic<double> slowest_{0}; ///< nanoseconds a byte
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>

#include "runtime/time.hpp"

namespace millrace {

/// Learns on which inputs a model is sure to be faster than a limit: inputs no
/// larger than some on which it was faster, while its typical time is below the
/// limit. Any thread; a race costs an estimate, nothing else.
class short_runs {
public:
  explicit short_runs(nanoseconds limit) : limit_(limit) {}

  void learn(nanoseconds took, size_t bytes) {
    auto known = bytes_.load(std::memory_order_relaxed);
    if (took < limit_ && bytes > known)
      bytes_.store(bytes, std::memory_order_relaxed);
    else if (bytes > known)
      return; // has no bearing on smaller inputs
    auto before = typical_.load(std::memory_order_relaxed);
    auto is_long = took > 2 * limit_;
    auto in_a_row = is_long ? long_runs_.fetch_add(1) + 1 : 0;
    if (!is_long)
      long_runs_.store(0, std::memory_order_relaxed);
    // A single long run is a thread that lost its core; three are a slow model.
    if (is_long && in_a_row < 3 && before != 0)
      return;
    // A fast run after slow ones replaces the average.
    auto starts_anew = before == 0 || is_long || before >= limit_.count();
    typical_.store(starts_anew ? took.count()
                               : before + (took.count() - before) / 8,
                   std::memory_order_relaxed);
  }

  bool expected(size_t bytes) const {
    auto typical = nanoseconds{typical_.load(std::memory_order_relaxed)};
    return typical > nanoseconds{0} && typical < limit_
           && bytes <= bytes_.load(std::memory_order_relaxed);
  }

private:
  nanoseconds limit_;
  /// Moving average of runs on inputs up to bytes_; 0: unknown.
  std::atomic<int64_t> typical_{0};
  std::atomic<size_t> bytes_{0};       ///< of the largest input that was short
  std::atomic<uint32_t> long_runs_{0}; ///< consecutive
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "runtime/time.hpp"

namespace millrace {

/// Learns the recent maximum of the run time per byte of inputs, to estimate
/// the time of a larger batch that has not been run. Any thread; a race costs
/// an estimate, nothing else.
class run_pace {
public:
  void learn(nanoseconds took, size_t bytes) {
    if (bytes == 0)
      return;
    constexpr double remembered = .875; ///< weight of the old maximum, per run
    auto pace = static_cast<double>(took.count()) / static_cast<double>(bytes);
    auto before = slowest_.load(std::memory_order_relaxed);
    slowest_.store(std::max(pace, remembered * before),
                   std::memory_order_relaxed);
  }

  /// Time for inputs of this size, at most ten days; 0: unknown.
  nanoseconds expected(size_t bytes) const {
    constexpr double most = to_seconds(240h) * 1e9;
    auto took =
      slowest_.load(std::memory_order_relaxed) * static_cast<double>(bytes);
    return nanoseconds{static_cast<int64_t>(std::min(took, most))};
  }

private:
  std::atomic<double> slowest_{0}; ///< nanoseconds a byte
};

/// The paces of all layers that ran on a device. A pace outlives the sandboxed
/// processes that ran the layers, so that a replacement process does not start
/// without one.
class pace_book {
public:
  std::shared_ptr<run_pace> of(const std::string& bundle, size_t first_layer,
                               size_t last_layer) {
    constexpr size_t most = 1000; // models, versions and parts
    if (all_.size() > most)
      all_.clear();
    auto& out = all_[{bundle, first_layer, last_layer}];
    if (!out)
      out = std::make_shared<run_pace>();
    return out;
  }

private:
  std::map<std::tuple<std::string, size_t, size_t>, std::shared_ptr<run_pace>>
    all_;
};

} // namespace millrace

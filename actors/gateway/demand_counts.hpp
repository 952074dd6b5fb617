// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/metrics.hpp"
#include "transport/messages/demand.hpp"

namespace millrace {

/// Counts of the demand for one model since a gateway began, in constant time
/// per request.
class demand_count {
public:
  explicit demand_count(std::string model) { counts_.model = std::move(model); }

  void set_slo(microseconds x) { slo_ = x; }

  void arrived(uint64_t rows, timestamp now) {
    ++counts_.arrived;
    counts_.rows += rows;
    if (last_arrival_ != timestamp{})
      counts_.gaps.add(now - last_arrival_);
    last_arrival_ = now;
    changed_ = true;
  }

  /// `waited` until it was executed, `took` in all, within `deadline`.
  void answered(ec status, microseconds waited, microseconds took,
                microseconds deadline);

  void executed(microseconds device_time, uint64_t requests) {
    counts_.device_seconds += to_seconds(device_time);
    counts_.executed += requests;
    changed_ = true;
  }

  void set_backlog(uint64_t waiting, microseconds oldest) {
    changed_ |= waiting != counts_.waiting || waiting > 0;
    counts_.waiting = waiting;
    counts_.oldest = oldest;
  }

  const model_counters& counts() const { return counts_; }

  /// Whether anything has changed since this was asked last.
  bool take_change() { return std::exchange(changed_, false); }

  /// Brings metrics up to date, which cost more than these counts.
  void show(metrics& in);

private:
  model_counters counts_;
  microseconds slo_{0};
  timestamp last_arrival_{};
  bool changed_ = false;
  /// As they were shown last.
  uint64_t arrivals_shown_ = 0, within_shown_ = 0, others_shown_ = 0;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages/requests.hpp"
#include "runtime/error.hpp"
#include "runtime/metrics.hpp"
#include "transport/messages/demand.hpp"

namespace millrace {

/// Counts the demand for one model since the gateway's start, in constant time
/// per request.
class demand_count {
public:
  /// `begun`: the gateway's start, from which bins are numbered.
  demand_count(std::string model, timestamp begun) : begun_(begun) {
    counts_.model = std::move(model);
  }

  void set_slo(microseconds slo) { slo_ = slo; }

  void arrived(uint64_t rows, timestamp now) {
    ++counts_.arrived;
    counts_.rows += rows;
    if (last_arrival_ != timestamp{})
      counts_.gaps.add(now - last_arrival_);
    last_arrival_ = now;
    changed_ = true;
    auto bin = static_cast<uint64_t>((now - begun_) / arrival_bins::length);
    for (; newest_bin_ < bin; ++newest_bin_) {
      if (bin - newest_bin_ > bins_.size())
        newest_bin_ = bin - bins_.size();
      bins_[(newest_bin_ + 1) % bins_.size()] = 0;
    }
    ++bins_[bin % bins_.size()];
  }

  /// A request was answered. `waited`: until execution; `took`: in all.
  void answered(ec status, microseconds waited, microseconds took,
                microseconds deadline);

  /// A batch of `requests` was executed.
  void executed(const requests_completed& message, uint64_t requests);

  void set_backlog(uint64_t waiting, microseconds oldest) {
    changed_ |= waiting != counts_.waiting || waiting > 0;
    counts_.waiting = waiting;
    counts_.oldest = oldest;
  }

  const model_counters& counts() const { return counts_; }

  /// The counters, with the latest bins of arrivals and all bins of latencies.
  model_counters report(timestamp now) const;

  /// Whether a count has changed since the last call.
  bool take_change() { return std::exchange(changed_, false); }

  /// Updates the metrics. Costs more than counting, so it is done per report.
  void show(metrics& in);

  /// Ends the series of the model in the metrics.
  void hide() { series_.reset(); }

private:
  struct series {
    counter arrivals, within, others;
  };

  stage_counters& stage_of(const layer_range& layers);

  model_counters counts_;
  timestamp begun_;
  std::array<uint64_t, arrival_bins::most> bins_{}; ///< by number modulo size
  uint64_t newest_bin_ = 0;
  std::array<uint64_t, duration_bins::most> latencies_{}; ///< of ok answers
  microseconds slo_{0};
  timestamp last_arrival_{};
  bool changed_ = false;
  std::optional<series> series_;
  /// Values at the last update of the metrics.
  uint64_t arrivals_shown_ = 0, within_shown_ = 0, others_shown_ = 0;
};

} // namespace millrace

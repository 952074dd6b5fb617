// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include <prometheus/gauge.h>
#include <prometheus/metric_family.h>

#include "runtime/metric_family.hpp"

namespace millrace {

/// The series of one metric family, by labels. In prometheus-cpp the family
/// owns its series, so the handle of a removed series would dangle. Here the
/// handles share ownership. Thread-safe.
template <class Metric>
class metric_series {
public:
  using labels = std::map<std::string, std::string>;

  metric_series(prometheus::MetricFamily head, series_life life)
    : head_(std::move(head)),
      life_(life) {}

  /// The series with these labels, constructed from `xs` if it does not exist.
  template <class... Ts>
  std::shared_ptr<Metric> at(const labels& of, Ts&&... xs) {
    std::lock_guard guard{mutex_};
    auto i = series_.find(of);
    if (i == series_.end()) {
      if (life_ == series_life::handles && series_.size() >= sweep_at_)
        sweep();
      i =
        series_
          .emplace(of, entry{std::make_shared<Metric>(std::forward<Ts>(xs)...)})
          .first;
    }
    i->second.was_last = false;
    return i->second.metric;
  }

  /// The values of the family, with the labels `common` added. A counter or
  /// histogram without a handle is returned once more, so that a scrape sees
  /// its last value. A gauge without a handle is dropped at once.
  prometheus::MetricFamily collect(const labels& common) {
    std::lock_guard guard{mutex_};
    auto out = head_;
    for (auto i = series_.begin(); i != series_.end();) {
      auto& x = i->second;
      if (is_abandoned(x) && (is_gauge || x.was_last)) {
        i = series_.erase(i);
        continue;
      }
      x.was_last = is_abandoned(x);
      out.metric.push_back(x.metric->Collect());
      for (auto* from : {&i->first, &common})
        for (auto& [name, value] : *from)
          out.metric.back().label.push_back({name, value});
      ++i;
    }
    return out;
  }

private:
  static constexpr bool is_gauge = std::is_same_v<Metric, prometheus::Gauge>;

  struct entry {
    std::shared_ptr<Metric> metric;
    bool was_last = false; ///< was returned after its last handle was destroyed
  };

  bool is_abandoned(const entry& series) const {
    return life_ == series_life::handles && series.metric.use_count() == 1;
  }

  /// Removes series without handles; without scrapes, they would accumulate.
  void sweep() {
    std::erase_if(series_, [&](auto& x) { return is_abandoned(x.second); });
    sweep_at_ = 2 * series_.size() + 64;
  }

  const prometheus::MetricFamily head_;
  const series_life life_;
  std::mutex mutex_;
  std::map<labels, entry> series_; ///< guarded
  size_t sweep_at_ = 64;           ///< guarded; number of series
};

} // namespace millrace

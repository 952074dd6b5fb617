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

namespace millrace {

/// How long a family shows a series.
enum class series_life {
  process, ///< from its first use on
  handles  ///< while an actor keeps its handle
};

/// The series of one metric family, by their labels. prometheus-cpp's own
/// families own their series, so that a handle of a removed series would
/// dangle; here handles share them. Any thread.
template <class Metric>
class metric_series {
public:
  using labels = std::map<std::string, std::string>;

  metric_series(prometheus::MetricFamily head, series_life life)
    : head_(std::move(head)),
      life_(life) {}

  /// The series with these labels; a new one is made of `xs`.
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

  /// The family's values, each with the labels `common` beside its own. A
  /// counter or histogram without a handle is shown once more, so that a
  /// scrape has its last value; a gauge without a handle means nothing.
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
    bool was_last = false; ///< shown since its last handle went
  };

  bool is_abandoned(const entry& x) const {
    return life_ == series_life::handles && x.metric.use_count() == 1;
  }

  /// Where nothing scrapes, series without handles would pile up.
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

// SPDX-License-Identifier: Apache-2.0
#include "runtime/metrics.hpp"

#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/text_serializer.h>

#include "runtime/metric_series.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;
using labels = std::map<std::string, std::string>;

/// Bounds in seconds, from 50 us (a trivial model in one process) to 10 s.
/// About three buckets a decade suffice for quantiles and keep scrapes small.
const Histogram::BucketBoundaries second_buckets{
  .00005, .0001, .00025, .0005, .001, .0025, .005, .01,
  .025,   .05,   .1,     .25,   .5,   1,     2.5,  10};

/// Bounds in seconds, from a start out of memory to a start over a slow link.
const Histogram::BucketBoundaries start_buckets{
  .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 50, 100, 250};

const Histogram::BucketBoundaries decision_buckets{
  1e-6, 1e-5, 1e-4, 1e-3, 5e-3, .01, .05, .1, .5, 1, 5};

const Histogram::BucketBoundaries size_buckets{1,  2,  4,   8,   16,
                                               32, 64, 128, 256, 512};

const Histogram::BucketBoundaries& bounds(histogram_steps x) {
  static const Histogram::BucketBoundaries none;
  switch (x) {
  case histogram_steps::requests:
    return second_buckets;
  case histogram_steps::starts:
    return start_buckets;
  case histogram_steps::decisions:
    return decision_buckets;
  case histogram_steps::sizes:
    return size_buckets;
  case histogram_steps::none:
    break;
  }
  return none;
}

const char* name_of(metric_kind x) {
  return x == metric_kind::counter ? "counter"
         : x == metric_kind::gauge ? "gauge"
                                   : "histogram";
}

} // namespace

struct metric_family_base::impl {
  virtual ~impl() = default;
  virtual std::shared_ptr<void> at(const labels& of) = 0;
  virtual MetricFamily collect(const labels& common) = 0;
};

struct metrics::impl {
  using family = metric_family_base::impl;

  template <class Metric>
  struct typed_family : family, metric_series<Metric> {
    explicit typed_family(const metric_row& row)
      : metric_series<Metric>({row.name, row.help, Metric::metric_type, {}},
                              row.life),
        steps(row.steps) {}

    std::shared_ptr<void> at(const labels& of) override {
      if constexpr (std::is_same_v<Metric, Histogram>)
        return metric_series<Metric>::at(of, bounds(steps));
      else
        return metric_series<Metric>::at(of);
    }

    MetricFamily collect(const labels& common) override {
      return metric_series<Metric>::collect(common);
    }

    histogram_steps steps;
  };

  static std::shared_ptr<family> make(metric_kind kind, const metric_row& row) {
    if (kind == metric_kind::counter)
      return std::make_shared<typed_family<Counter>>(row);
    if (kind == metric_kind::gauge)
      return std::make_shared<typed_family<Gauge>>(row);
    return std::make_shared<typed_family<Histogram>>(row);
  }

  impl(recording how, std::string node) : mode(how) {
    if (!node.empty())
      common.emplace("node", std::move(node));
  }

  labels common; ///< of every series
  const recording mode;
  std::vector<std::shared_ptr<family>> families;
  std::string reference = "| metric | kind | meaning |\n|---|---|---|\n";
};

metric_family_base::metric_family_base(metrics& in, metric_kind kind,
                                       metric_row row)
  : names_(std::move(row.labels)) {
  auto& all = *in.impl_;
  all.reference += std::string{"| `"} + row.name + "` | " + name_of(kind)
                   + " | " + row.help + " |\n";
  auto made = metrics::impl::make(kind, row);
  all.families.push_back(made);
  if (all.mode == recording::on)
    impl_ = std::move(made);
}

std::shared_ptr<void> metric_family_base::at(const label_values& of) const {
  return impl_ != nullptr ? impl_->at(of) : nullptr;
}

metrics::metrics(recording mode, std::string node)
  : impl_(std::make_unique<impl>(mode, std::move(node))) {
}

metrics::~metrics() = default;

bool metrics::is_on() const {
  return impl_->mode == recording::on;
}

void counter::add(double n) {
  if (impl_ != nullptr)
    static_cast<Counter*>(impl_.get())->Increment(n);
}

void gauge::set(double value) {
  if (impl_ != nullptr)
    static_cast<Gauge*>(impl_.get())->Set(value);
}

void gauge::add(double amount) {
  if (impl_ != nullptr)
    static_cast<Gauge*>(impl_.get())->Increment(amount);
}

void histogram::observe(double value) {
  if (impl_ != nullptr)
    static_cast<Histogram*>(impl_.get())->Observe(value);
}

std::string metrics::text() const {
  std::vector<MetricFamily> out;
  for (auto& family : impl_->families)
    if (auto read = family->collect(impl_->common); !read.metric.empty())
      out.push_back(std::move(read));
  return printable(prometheus::TextSerializer{}.Serialize(out));
}

std::string metrics::reference() const {
  return impl_->reference;
}

} // namespace millrace

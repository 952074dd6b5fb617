// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Handles of metrics and the type of a row in the table of metrics
/// (runtime/metrics.hpp). A row is a callable object: its arguments are the
/// values of its labels, its result is the handle of one series.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/names.hpp"

namespace millrace {

class metrics;

enum class metric_kind : uint8_t { counter, gauge, histogram };

/// A value that only increases.
class counter {
public:
  static constexpr metric_kind kind = metric_kind::counter;

  void add(double n = 1);

private:
  template <class, class...>
  friend class metric_family;
  explicit counter(std::shared_ptr<void> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<void> impl_; ///< null: not recorded
};

/// A value that can increase and decrease.
class gauge {
public:
  static constexpr metric_kind kind = metric_kind::gauge;

  void set(double value);
  void add(double amount);

private:
  template <class, class...>
  friend class metric_family;
  explicit gauge(std::shared_ptr<void> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<void> impl_; ///< null: not recorded
};

/// One owner's share of a gauge that shows a sum. The destructor removes the
/// share from the sum.
class gauge_share {
public:
  gauge_share(gauge of) : of_(std::move(of)) {}
  gauge_share(const gauge_share&) = delete;
  gauge_share& operator=(const gauge_share&) = delete;
  ~gauge_share() { set(0); }

  void set(double value) {
    if (value != mine_)
      of_.add(value - std::exchange(mine_, value));
  }

private:
  gauge of_;
  double mine_ = 0;
};

/// A distribution over fixed buckets.
class histogram {
public:
  static constexpr metric_kind kind = metric_kind::histogram;

  void observe(double value);

private:
  template <class, class...>
  friend class metric_family;
  explicit histogram(std::shared_ptr<void> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<void> impl_; ///< null: not recorded
};

/// A model version as labels of a series.
struct model_label {
  std::string_view model;
  uint64_t version = 0; ///< 0: unknown, without a label
};

/// Lifetime of a series in its family.
enum class series_life : uint8_t {
  process, ///< from the first use to the end of the process
  handles  ///< while an actor holds a handle
};

/// The bounds of a histogram's buckets; metrics.cpp has the numbers.
enum class histogram_steps : uint8_t {
  none,      ///< not a histogram
  requests,  ///< seconds, 50 us to 10 s
  starts,    ///< seconds, 10 ms to 250 s
  decisions, ///< seconds, 1 us to 5 s
  sizes      ///< powers of two, 1 to 512
};

/// The declaration of a family.
struct metric_row {
  const char* name;
  /// One name per argument of the call, in their order. An argument of type
  /// model_label has the fixed names model and version and none here.
  std::vector<const char*> labels;
  const char* help;
  series_life life = series_life::process;
  histogram_steps steps = histogram_steps::none;
};

/// The part of a family that does not depend on the types of its labels.
class metric_family_base {
protected:
  using label_values = std::map<std::string, std::string>;

  /// Adds the family to the exposition and the reference of `in`.
  metric_family_base(metrics& in, metric_kind kind, metric_row row);

  /// The series with these labels; null when nothing is recorded.
  std::shared_ptr<void> at(const label_values& of) const;

  const std::vector<const char*>& label_names() const { return names_; }

private:
  friend class metrics;
  struct impl;
  std::vector<const char*> names_;
  std::shared_ptr<impl> impl_;
};

/// A family of series: one metric with a value per combination of labels.
/// Thread-safe; each call takes a lock.
template <class Handle, class... Labels>
class metric_family : metric_family_base {
public:
  metric_family(metrics& in, const char* name, std::vector<const char*> labels,
                const char* help, series_life life = series_life::process,
                histogram_steps steps = histogram_steps::none)
    : metric_family_base(in, Handle::kind,
                         {name, std::move(labels), help, life, steps}) {}

  /// The handle of the series with these values of the labels.
  Handle operator()(Labels... values) const {
    label_values of;
    [[maybe_unused]] auto name = label_names().begin();
    (add(of, name, values), ...);
    return Handle{at(of)};
  }

private:
  template <class Name, class T>
  static void add(label_values& of, Name& name, const T& value) {
    if constexpr (std::is_same_v<T, model_label>) {
      of.emplace("model", value.model);
      if (value.version != 0)
        of.emplace("version", std::to_string(value.version));
    } else if constexpr (std::is_convertible_v<T, std::string_view>) {
      of.emplace(*name++, std::string_view{value});
    } else {
      of.emplace(*name++, to_string(value));
    }
  }
};

} // namespace millrace

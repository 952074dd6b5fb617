// SPDX-License-Identifier: Apache-2.0
#include "models/contention/law.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/random.hpp"

namespace millrace {

namespace {

double count_of(std::span<const running_batch> all) {
  return static_cast<double>(all.size());
}

class no_contention : public contention_law {
public:
  double slowdown(std::span<const running_batch>, size_t) const override {
    return 1;
  }
};

class linear_contention : public contention_law {
public:
  explicit linear_contention(double per_neighbour)
    : per_neighbour_(per_neighbour) {}

  double slowdown(std::span<const running_batch> all, size_t) const override {
    return 1 + per_neighbour_ * (count_of(all) - 1);
  }

private:
  double per_neighbour_;
};

class bandwidth_contention : public contention_law {
public:
  explicit bandwidth_contention(double exponent) : exponent_(exponent) {}

  double slowdown(std::span<const running_batch> all, size_t) const override {
    double sum = 0;
    for (auto& x : all)
      sum += x.measured("bandwidth_share");
    return std::max(1.0, sum * std::pow(count_of(all), exponent_));
  }

private:
  double exponent_;
};

class power_contention : public contention_law {
public:
  power_contention(double factor, double exponent)
    : factor_(factor),
      exponent_(exponent) {}

  double slowdown(std::span<const running_batch> all, size_t) const override {
    return std::max(1.0, factor_ * std::pow(count_of(all), exponent_));
  }

private:
  double factor_, exponent_;
};

class wsm_contention : public contention_law {
public:
  explicit wsm_contention(double kappa) : kappa_(kappa) {}

  double slowdown(std::span<const running_batch> all,
                  size_t which) const override {
    double own = 0, others = 0;
    for (size_t i = 0; i < all.size(); ++i)
      (i == which ? own : others) += all[i].measured("wsm_percent") / 100;
    return std::max(1.0, own + others) * (1 + kappa_ * others);
  }

private:
  double kappa_;
};

class table_contention : public contention_law {
public:
  explicit table_contention(std::vector<double> slowdowns)
    : slowdowns_(std::move(slowdowns)) {}

  double slowdown(std::span<const running_batch> all, size_t) const override {
    if (slowdowns_.empty())
      return 1;
    auto row = std::clamp<size_t>(all.size(), 1, slowdowns_.size());
    return std::max(1.0, slowdowns_[row - 1]);
  }

private:
  std::vector<double> slowdowns_; ///< with 1, 2, 3 and so on batches
};

/// A number for each neighbour, by the pair of models.
class contention_of_pairs : public contention_law {
public:
  double slowdown(std::span<const running_batch> all,
                  size_t which) const final {
    double out = 1;
    for (size_t i = 0; i < all.size(); ++i)
      if (i != which)
        out +=
          extra((std::string{all[which].model} + "+").append(all[i].model));
    return out;
  }

private:
  /// For a pair MODEL+NEIGHBOUR, at least 0.
  virtual double extra(const std::string& pair) const = 0;
};

class pairwise_contention : public contention_of_pairs {
public:
  explicit pairwise_contention(std::map<std::string, double> pairs)
    : pairs_(std::move(pairs)) {}

private:
  double extra(const std::string& pair) const override {
    auto found = pairs_.find(pair);
    return found == pairs_.end() ? 0 : found->second;
  }

  std::map<std::string, double> pairs_;
};

class drawn_contention : public contention_of_pairs {
public:
  drawn_contention(double extra_min, double extra_max, uint64_t seed)
    : extra_min_(extra_min),
      extra_max_(extra_max),
      random_(seed) {}

private:
  double extra(const std::string& pair) const override {
    return extra_min_
           + (extra_max_ - extra_min_) * random_.fork(pair).uniform();
  }

  double extra_min_, extra_max_;
  random_stream random_;
};

} // namespace

std::string_view metric_of(contention_kind kind) {
  switch (kind) {
  case contention_kind::bandwidth:
    return "bandwidth_share";
  case contention_kind::wsm:
    return "wsm_percent";
  default:
    return {};
  }
}

std::unique_ptr<contention_law>
make_contention_law(const contention_settings& settings, uint64_t seed) {
  switch (settings.model) {
  case contention_kind::none:
    break;
  case contention_kind::linear:
    return std::make_unique<linear_contention>(settings.slowdown);
  case contention_kind::bandwidth:
    return std::make_unique<bandwidth_contention>(settings.exponent);
  case contention_kind::pairwise:
    return std::make_unique<pairwise_contention>(settings.pairs);
  case contention_kind::power:
    return std::make_unique<power_contention>(settings.factor,
                                              settings.exponent);
  case contention_kind::wsm:
    return std::make_unique<wsm_contention>(settings.kappa);
  case contention_kind::table:
    return std::make_unique<table_contention>(settings.slowdowns);
  case contention_kind::drawn:
    return std::make_unique<drawn_contention>(settings.extra_min,
                                              settings.extra_max, seed);
  }
  return std::make_unique<no_contention>();
}

} // namespace millrace

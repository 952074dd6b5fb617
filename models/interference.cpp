// SPDX-License-Identifier: Apache-2.0
#include "models/interference.hpp"

#include <algorithm>
#include <cmath>

namespace millrace {

namespace {

class no_interference : public interference_model {
public:
  double slowdown(std::span<const running_batch>, size_t) const override {
    return 1;
  }
};

class linear_interference : public interference_model {
public:
  explicit linear_interference(double per_neighbour)
    : per_neighbour_(per_neighbour) {}

  double slowdown(std::span<const running_batch> all, size_t) const override {
    return 1 + per_neighbour_ * static_cast<double>(all.size() - 1);
  }

private:
  double per_neighbour_;
};

class bandwidth_interference : public interference_model {
public:
  explicit bandwidth_interference(double exponent) : exponent_(exponent) {}

  double slowdown(std::span<const running_batch> all, size_t) const override {
    double sum = 0;
    for (auto& x : all)
      sum += x.demand;
    return std::max(1.0,
                    sum * std::pow(static_cast<double>(all.size()), exponent_));
  }

private:
  double exponent_;
};

class pairwise_interference : public interference_model {
public:
  explicit pairwise_interference(std::map<std::string, double> pairs)
    : pairs_(std::move(pairs)) {}

  double slowdown(std::span<const running_batch> all,
                  size_t which) const override {
    double out = 1;
    for (size_t i = 0; i < all.size(); ++i) {
      if (i == which)
        continue;
      auto found = pairs_.find(all[which].model + "+" + all[i].model);
      out += found == pairs_.end() ? 0 : found->second;
    }
    return out;
  }

private:
  std::map<std::string, double> pairs_;
};

} // namespace

std::unique_ptr<interference_model>
make_interference(const interference_settings& x) {
  switch (x.model) {
  case interference_kind::none:
    break;
  case interference_kind::linear:
    return std::make_unique<linear_interference>(x.slowdown);
  case interference_kind::bandwidth:
    return std::make_unique<bandwidth_interference>(x.exponent);
  case interference_kind::pairwise:
    return std::make_unique<pairwise_interference>(x.pairs);
  }
  return std::make_unique<no_interference>();
}

} // namespace millrace

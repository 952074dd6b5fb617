// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/variant_plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace millrace {

namespace {

bool meets_slo(const variant_facts& x, const variant_goal& goal) {
  return goal.slo <= 0 || x.latency <= goal.slo;
}

/// Instances that serve a rate.
uint64_t instances_for(const variant_facts& x, double rate) {
  if (rate <= 0)
    return 0;
  return static_cast<uint64_t>(
    std::ceil(std::min(rate / x.saturation, 1e9) - 1e-9));
}

/// Depth-first search over the number of instances of each variant, from the
/// largest useful number down to 0.
class plan_search {
public:
  plan_search(const std::vector<variant_facts>& all, const variant_goal& goal,
              uint64_t nodes)
    : all_(all),
      goal_(goal),
      nodes_(nodes),
      order_(all.size()),
      rest_(all.size() + 1),
      change_(all.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    auto per_rate = [&](size_t i) { return all[i].cost / all[i].saturation; };
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return per_rate(a) < per_rate(b);
    });
    for (auto i = all.size(); i-- > 0;) {
      auto& x = all[order_[i]];
      rest_[i] = rest_[i + 1] - x.cost * static_cast<double>(x.count);
    }
  }

  std::optional<variant_plan> run() {
    visit(0, goal_.rate, 0);
    if (best_)
      best_->proven = visited_ <= nodes_;
    return best_;
  }

private:
  /// Adds instances of the variants from `depth` on, to serve `rate`.
  void visit(size_t depth, double rate, double cost) {
    constexpr double exact = 1e-9;
    if (depth == order_.size()) {
      if (rate <= exact && (!best_ || cost < best_->cost - exact))
        best_ = variant_plan{change_, cost, true};
      return;
    }
    if (++visited_ > nodes_)
      return;
    auto at = order_[depth];
    auto& x = all_[at];
    auto bound =
      cost + rest_[depth] + std::max(0.0, rate) * x.cost / x.saturation;
    if (best_ && bound >= best_->cost - exact)
      return;
    auto most = x.count + (meets_slo(x, goal_) ? x.room : 0);
    for (auto n = std::min(most, instances_for(x, rate)) + 1; n-- > 0;) {
      auto delta = static_cast<int64_t>(n) - static_cast<int64_t>(x.count);
      change_[at] = delta;
      visit(depth + 1, rate - static_cast<double>(n) * x.saturation,
            cost + cost_of_change(x, delta, goal_.lambda));
    }
  }

  const std::vector<variant_facts>& all_;
  const variant_goal& goal_;
  uint64_t nodes_, visited_ = 0;
  std::vector<size_t> order_; ///< by cost per rate
  /// Change of cost when the variants from there on end, by depth.
  std::vector<double> rest_;
  std::vector<int64_t> change_;
  std::optional<variant_plan> best_;
};

} // namespace

variant_state state_of(const variant_usage& usage, double peak, double excess) {
  if (usage.ready == 0)
    return variant_state::inactive;
  if (usage.served
      >= peak * usage.saturation * static_cast<double>(usage.ready))
    return variant_state::overloaded;
  if (usage.latency > 0 && usage.profiled > 0
      && usage.latency > excess * usage.profiled)
    return variant_state::interfered;
  return variant_state::active;
}

double cost_of_change(const variant_facts& variant, int64_t delta,
                      double lambda) {
  auto added = static_cast<double>(std::max<int64_t>(0, delta));
  return variant.cost
         * (static_cast<double>(delta) + lambda * variant.load * added);
}

double capacity_of(const std::vector<variant_facts>& all) {
  return std::accumulate(
    all.begin(), all.end(), 0.0, [](double sum, const variant_facts& x) {
      return sum + x.saturation * static_cast<double>(x.count);
    });
}

std::optional<variant_plan>
cheapest_addition(const std::vector<variant_facts>& all,
                  const variant_goal& goal, bool upgrade) {
  auto missing = goal.rate - capacity_of(all);
  if (missing <= 0)
    return std::nullopt;
  std::optional<size_t> running;
  auto capacity = [&](size_t i) {
    return all[i].saturation * static_cast<double>(all[i].count);
  };
  for (size_t i = 0; i < all.size(); ++i)
    if (capacity(i) > 0 && (!running || capacity(i) > capacity(*running)))
      running = i;
  auto slo_counts = std::any_of(all.begin(), all.end(),
                                [&](auto& x) { return meets_slo(x, goal); });
  std::optional<variant_plan> best;
  double served = 0; // by the best plan, at most `missing`
  for (size_t i = 0; i < all.size(); ++i) {
    auto& x = all[i];
    auto other = running && *running != i;
    if (other && (!upgrade || x.saturation <= all[*running].saturation))
      continue;
    auto n = std::min(x.room, instances_for(x, missing));
    if (n == 0 || (slo_counts && !meets_slo(x, goal)))
      continue;
    auto serves = std::min(missing, static_cast<double>(n) * x.saturation);
    auto cost = cost_of_change(x, static_cast<int64_t>(n), goal.lambda);
    if (best && (serves < served || (serves == served && cost >= best->cost)))
      continue;
    best = variant_plan{std::vector<int64_t>(all.size()), cost, true};
    best->change[i] = static_cast<int64_t>(n);
    served = serves;
  }
  return best;
}

std::optional<variant_plan> cheapest_plan(const std::vector<variant_facts>& all,
                                          const variant_goal& goal,
                                          uint64_t nodes) {
  return plan_search{all, goal, nodes}.run();
}

std::vector<variant_reduction>
cheaper_plans(const std::vector<variant_facts>& all, const variant_goal& goal,
              bool downgrade) {
  std::vector<variant_reduction> out;
  auto capacity = capacity_of(all);
  uint64_t instances = 0;
  for (auto& x : all)
    instances += x.count;
  for (size_t i = 0; i < all.size(); ++i) {
    auto& x = all[i];
    if (x.count == 0)
      continue;
    if (instances > 1 && x.cost > 0 && capacity - x.saturation >= goal.rate)
      out.push_back({i, {}, 0, x.cost});
    if (!downgrade)
      continue;
    auto n_x = static_cast<double>(x.count);
    auto missing = goal.rate - (capacity - x.saturation * n_x);
    for (size_t j = 0; j < all.size(); ++j) {
      auto& y = all[j];
      auto left = instances > x.count || missing > 0;
      auto n = std::max<uint64_t>(left ? 0 : 1, instances_for(y, missing));
      auto saved = x.cost * n_x - y.cost * static_cast<double>(n);
      if (j != i && n > 0 && n <= y.room && meets_slo(y, goal) && saved > 1e-9)
        out.push_back({i, j, n, saved});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](auto& a, auto& b) { return a.saved > b.saved; });
  return out;
}

} // namespace millrace

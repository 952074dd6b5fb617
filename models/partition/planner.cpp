// SPDX-License-Identifier: Apache-2.0
#include "models/partition/planner.hpp"

#include <algorithm>
#include <cmath>

namespace millrace {

namespace {

/// The costs of one way to cut a prefix of the layers.
struct label {
  double cold;
  double period;
  double transfers;
  uint32_t before; ///< label of the layers before the last part
  uint32_t cut;    ///< first layer of the last part
};

bool by_costs(const label& a, const label& b) {
  if (a.cold != b.cold)
    return a.cold < b.cold;
  if (a.period != b.period)
    return a.period < b.period;
  return a.transfers < b.transfers;
}

/// The Pareto-optimal pairs of a period and transfers.
class staircase {
public:
  void clear() { steps_.clear(); }

  /// False if an existing pair is at least as good in both.
  bool add(double period, double transfers) {
    auto after =
      std::upper_bound(steps_.begin(), steps_.end(), period,
                       [](double x, auto& step) { return x < step.first; });
    if (after != steps_.begin() && std::prev(after)->second <= transfers)
      return false;
    auto first = after;
    if (first != steps_.begin() && std::prev(first)->first == period)
      --first;
    auto worse = std::find_if(
      first, steps_.end(), [&](auto& step) { return step.second < transfers; });
    steps_.insert(steps_.erase(first, worse), {period, transfers});
    return true;
  }

private:
  /// First ascending, second descending.
  std::vector<std::pair<double, double>> steps_;
};

std::vector<double> sums_of(const std::vector<double>& xs) {
  std::vector<double> out{0};
  for (auto x : xs)
    out.push_back(out.back() + x);
  return out;
}

/// Labels of every prefix; the number of parts grows step by step.
class search {
public:
  search(const layer_costs& costs, pipelining mode)
    : costs_(costs),
      mode_(mode),
      cold_(sums_of(costs.cold)),
      execute_(sums_of(costs.execute)),
      ends_(layers() + 1) {
    for (size_t end = 1; end <= layers(); ++end) {
      ends_[end] = {labels_.size(), labels_.size() + 1};
      labels_.push_back({cold(0, end), period(0, end), 0, 0, 0});
    }
  }

  size_t layers() const { return costs_.layers(); }

  /// The Pareto-optimal partitions with the present number of parts.
  std::vector<partition> whole() const {
    std::vector<partition> out;
    auto [first, last] = ends_[layers()];
    for (auto i = first; i < last; ++i)
      out.push_back(partition_of(labels_[i]));
    return out;
  }

  void next() {
    ++parts_;
    auto before = ends_;
    for (size_t end = layers(); end >= parts_; --end) {
      candidates_.clear();
      for (auto cut = parts_ - 1; cut < end; ++cut)
        extend(before[cut], cut, end);
      std::sort(candidates_.begin(), candidates_.end(), by_costs);
      stairs_.clear();
      ends_[end].first = labels_.size();
      for (auto& x : candidates_)
        if (stairs_.add(x.period, x.transfers))
          labels_.push_back(x);
      ends_[end].second = labels_.size();
    }
  }

private:
  using span = std::pair<size_t, size_t>; ///< range of labels_

  double cold(size_t first, size_t end) const {
    return costs_.fixed_cold + cold_[end] - cold_[first];
  }

  /// Time of one part per request during which the next request has to wait.
  double period(size_t first, size_t end) const {
    auto run = execute_[end] - execute_[first];
    auto sent = end < layers() ? costs_.transfer[end - 1] : 0;
    switch (mode_) {
    case pipelining::none:
      return 0; // The whole group counts, see partition_of.
    case pipelining::handed_on:
      return run + sent;
    case pipelining::overlapped:
      break;
    }
    return std::max(run, sent);
  }

  void extend(span before, size_t cut, size_t end) {
    auto c = cold(cut, end), b = period(cut, end);
    auto sent = costs_.transfer[cut - 1];
    for (auto i = before.first; i < before.second; ++i) {
      auto& x = labels_[i];
      candidates_.push_back({std::max(c, x.cold), std::max(b, x.period),
                             x.transfers + sent, static_cast<uint32_t>(i),
                             static_cast<uint32_t>(cut)});
    }
  }

  partition partition_of(const label& x) const {
    partition out;
    out.cold = x.cold;
    out.inference = execute_.back() + x.transfers;
    out.period = mode_ == pipelining::none ? out.inference : x.period;
    for (auto* at = &x; at->cut != 0; at = &labels_[at->before])
      out.cuts.push_back(at->cut);
    std::reverse(out.cuts.begin(), out.cuts.end());
    return out;
  }

  const layer_costs& costs_;
  pipelining mode_;
  /// Sums over the layers before each layer.
  std::vector<double> cold_, execute_;
  std::vector<label> labels_;
  std::vector<span> ends_; ///< labels of each prefix, with parts_ parts
  size_t parts_ = 1;
  std::vector<label> candidates_;
  staircase stairs_;
};

} // namespace

double mean_place(uint64_t requests, uint64_t groups) {
  auto x = static_cast<double>(requests), g = static_cast<double>(groups);
  auto q = std::floor(x / g), r = x - q * g;
  return (g * q * (q - 1) / 2 + r * q) / x;
}

double mean_response(const partition& parts, uint64_t requests,
                     uint64_t devices) {
  if (devices < parts.parts())
    return std::numeric_limits<double>::infinity();
  return parts.cold + parts.inference
         + parts.period * mean_place(requests, devices / parts.parts());
}

partition_planner::choice
partition_planner::choice_among(std::vector<partition> xs) {
  auto least = [](auto& x) { return x.cold + x.inference; };
  std::sort(xs.begin(), xs.end(), [&](auto& a, auto& b) {
    return std::pair{least(a), a.period} < std::pair{least(b), b.period};
  });
  choice out;
  for (auto& x : xs) {
    if (!out.plans.empty() && x.period >= out.plans.back().period)
      continue;
    double from = 0;
    while (!out.best.empty()) {
      auto& last = out.plans[out.best.back()];
      from = (least(x) - least(last)) / (last.period - x.period);
      if (from > out.from.back())
        break;
      out.best.pop_back();
      out.from.pop_back();
      from = 0;
    }
    out.from.push_back(from);
    out.best.push_back(out.plans.size());
    out.plans.push_back(std::move(x));
  }
  return out;
}

partition_planner::partition_planner(const layer_costs& costs, pipelining mode,
                                     size_t max_parts) {
  search all{costs, mode};
  auto most = std::min(max_parts, costs.layers());
  for (size_t parts = 1; parts <= most; ++parts) {
    if (parts > 1)
      all.next();
    by_parts_.push_back(choice_among(all.whole()));
  }
}

const partition& partition_planner::best_of(size_t parts, uint64_t requests,
                                            uint64_t devices) const {
  auto& x = by_parts_[parts - 1];
  auto after = std::upper_bound(x.from.begin(), x.from.end(),
                                mean_place(requests, devices / parts));
  return x.plans[x.best[static_cast<size_t>(after - x.from.begin()) - 1]];
}

const partition& partition_planner::best(uint64_t requests,
                                         uint64_t devices) const {
  auto* out = &by_parts_[0].plans[0];
  auto least = mean_response(*out, requests, devices);
  auto most = std::min<uint64_t>(max_parts(), devices);
  for (size_t parts = 2; parts <= most; ++parts) {
    auto& x = best_of(parts, requests, devices);
    if (auto t = mean_response(x, requests, devices); t < least) {
      out = &x;
      least = t;
    }
  }
  return *out;
}

std::vector<partition_planner::range>
partition_planner::ranges(uint64_t devices, uint64_t most_requests) const {
  std::vector<range> out;
  for (uint64_t x = 1; x <= most_requests; ++x) {
    auto* plan = &best(x, devices);
    if (out.empty() || out.back().plan != plan)
      out.push_back({x, x, plan});
    out.back().last = x;
  }
  return out;
}

} // namespace millrace

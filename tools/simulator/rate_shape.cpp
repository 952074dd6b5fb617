// SPDX-License-Identifier: Apache-2.0
#include "simulator/rate_shape.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace millrace {

namespace {

constexpr double precision = 1e-7; ///< seconds

/// The begin or the end of a surge.
struct edge {
  double at = 0;
  double times = 1;
  bool begins = true;
};

std::vector<edge> edges_of(const std::vector<rate_surge>& surges, double end) {
  std::vector<edge> out;
  for (auto& x : surges) {
    auto every = to_seconds(x.every);
    for (auto at = to_seconds(x.at); at < end; at += every) {
      out.push_back({at, x.times, true});
      out.push_back({std::min(end, at + to_seconds(x.lasts)), x.times, false});
      if (every <= 0)
        break;
    }
  }
  std::sort(out.begin(), out.end(),
            [](auto& a, auto& b) { return a.at < b.at; });
  return out;
}

} // namespace

rate_shape::rate_shape(const workload_part& part, double end,
                       const std::vector<double>& per_second)
  : cycle_(part.diurnal) {
  area_ = end;
  if (part.surges.empty() && cycle_.depth <= 0 && per_second.empty())
    return;
  area_ = 0;
  auto edges = edges_of(part.surges, end);
  std::vector<double> active;
  auto next = edges.begin();
  for (double begin = 0; begin < end;) {
    for (; next != edges.end() && next->at <= begin; ++next)
      if (next->begins)
        active.push_back(next->times);
      else
        active.erase(std::find(active.begin(), active.end(), next->times));
    piece x;
    x.begin = begin;
    x.end = next == edges.end() ? end : std::min(end, next->at);
    x.before = area_;
    for (auto times : active)
      x.factor *= times;
    if (!per_second.empty()) {
      auto second = static_cast<size_t>(begin);
      x.factor *= second < per_second.size() ? per_second[second] : 0;
      x.end = std::min(x.end, static_cast<double>(second + 1));
    }
    area_ += area_between(x, x.begin, x.end);
    pieces_.push_back(x);
    begin = x.end;
  }
}

double rate_shape::area_between(const piece& part, double from,
                                double to) const {
  if (cycle_.depth <= 0)
    return part.factor * (to - from);
  auto pace = 2 * std::numbers::pi / to_seconds(cycle_.period);
  auto peak = to_seconds(cycle_.peak_at);
  return part.factor
         * (to - from
            + cycle_.depth / pace
                * (std::sin(pace * (to - peak))
                   - std::sin(pace * (from - peak))));
}

/// The real time at which `wanted` operational seconds of the piece have
/// passed; at least `from`.
double rate_shape::find(const piece& part, double wanted, double from) const {
  if (cycle_.depth <= 0)
    return std::min(part.end, part.begin + wanted / part.factor);
  auto low = std::max(from, part.begin), high = part.end;
  while (high - low > precision) {
    auto middle = (low + high) / 2;
    (area_between(part, part.begin, middle) < wanted ? low : high) = middle;
  }
  return (low + high) / 2;
}

void rate_shape::to_real_time(std::vector<double>& points) const {
  if (flat())
    return;
  size_t i = 0;
  double last = 0;
  for (auto& point : points) {
    while (i + 1 < pieces_.size() && pieces_[i + 1].before <= point)
      ++i;
    last = find(pieces_[i], point - pieces_[i].before, last);
    point = last;
  }
}

} // namespace millrace

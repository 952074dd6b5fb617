// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/predict/sharing_model.hpp"

#include <algorithm>
#include <cmath>

namespace millrace {

namespace {

double slowdown_of(const shared_load& x, uint64_t at_once) {
  auto k = static_cast<double>(at_once);
  return std::max(1.0, x.slowdown ? x.slowdown(k) : 1.0);
}

uint64_t batches_of(uint64_t requests, uint64_t batch) {
  return (requests + batch - 1) / batch;
}

bool is_in_range(const shared_load& x, double part, int64_t queued) {
  if (queued < 0 || queued >= static_cast<int64_t>(x.requests))
    return false;
  auto y = static_cast<uint64_t>(queued);
  auto batches =
    static_cast<double>(x.requests - y) / static_cast<double>(x.batch);
  return batches * part > 1 && printed_tmax(x, part, y) < x.slo;
}

} // namespace

double printed_tmax(const shared_load& load, double part, uint64_t queued) {
  auto y = static_cast<double>(queued);
  auto together = static_cast<double>(load.requests) - y;
  return load.solo / static_cast<double>(load.batch) * (y + part * together);
}

std::optional<split_range> printed_range(const shared_load& load, double part) {
  auto n = static_cast<double>(load.requests);
  auto c = static_cast<double>(load.batch);
  auto room = load.slo * c / load.solo; // rows that run alone within the SLO
  double low = 0, high = std::min(n - 1, n - c / part);
  if (part < 1)
    high = std::min(high, (room - part * n) / (1 - part));
  else if (part > 1)
    low = std::max(low, (part * n - room) / (part - 1));
  // Bounds are open, and rounding may be on either side: correct by one.
  auto first = static_cast<int64_t>(std::floor(std::clamp(low, 0.0, n)));
  auto last = static_cast<int64_t>(std::ceil(std::clamp(high, -1.0, n)));
  for (int i = 0; i < 2 && !is_in_range(load, part, first); ++i)
    ++first;
  for (int i = 0; i < 2 && !is_in_range(load, part, last); ++i)
    --last;
  if (first > last || !is_in_range(load, part, first)
      || !is_in_range(load, part, last))
    return std::nullopt;
  return split_range{static_cast<uint64_t>(first), static_cast<uint64_t>(last)};
}

std::optional<device_split> printed_split(const shared_load& load,
                                          double part) {
  auto range = printed_range(load, part);
  if (!range)
    return std::nullopt;
  auto y = part <= 1 ? range->first : range->last;
  return device_split{y, batches_of(load.requests - y, load.batch),
                      printed_tmax(load, part, y), load.requests, load.batch};
}

device_split split_of(const shared_load& load, uint64_t queued) {
  auto c = static_cast<double>(load.batch);
  auto together = load.requests - queued;
  device_split out;
  out.queued = queued;
  out.rows = load.batch;
  out.at_once = batches_of(together, load.batch);
  auto rows = static_cast<double>(std::min(together, load.batch));
  auto wave = together == 0 ? 0
                            : load.solo * std::min(1.0, rows / c)
                                * slowdown_of(load, out.at_once);
  out.longest = wave + load.solo * static_cast<double>(queued) / c;
  if (wave > load.slo)
    return out;
  auto after =
    static_cast<uint64_t>((load.slo - wave) / load.solo + 1e-9) * load.batch;
  out.on_time =
    together + (out.longest <= load.slo ? queued : std::min(queued, after));
  return out;
}

device_split best_split(const shared_load& load, split_objective by) {
  auto is_better = [&](const device_split& a, const device_split& b) {
    if (by == split_objective::max_on_time && a.on_time != b.on_time)
      return a.on_time > b.on_time;
    return a.longest < b.longest;
  };
  auto most = std::min(batches_of(load.requests, load.batch), load.at_once_max);
  device_split best;
  for (auto k = most; k > 0; --k) {
    auto together = std::min(load.requests, k * load.batch);
    auto found = split_of(load, load.requests - together);
    if (k == most || is_better(found, best))
      best = found;
  }
  return best;
}

device_split best_split_of_rows(const shared_load& all, double margin) {
  auto x = all;
  x.slo = std::max(0.0, x.slo - margin);
  constexpr uint64_t worthwhile = 100; // more batches for 1 % more on time
  auto best = best_split(x, split_objective::max_on_time);
  if (best.on_time == x.requests)
    return best;
  for (uint64_t k = 1; k <= std::min(x.requests, x.at_once_max); ++k) {
    auto whole = x.solo * slowdown_of(x, k); // of full batches
    auto rows = static_cast<uint64_t>(
      std::min(1.0, x.slo / whole) * static_cast<double>(x.batch) + 1e-9);
    if (rows == 0)
      break;
    auto smaller = x;
    smaller.batch = rows;
    smaller.solo =
      x.solo * static_cast<double>(rows) / static_cast<double>(x.batch);
    auto found = split_of(smaller, x.requests - std::min(x.requests, k * rows));
    if (found.on_time > best.on_time + x.requests / worthwhile)
      best = found;
    if (k * rows >= x.requests)
      break;
  }
  return best;
}

uint64_t best_cap(const shared_load& load) {
  auto most = std::clamp<uint64_t>(batches_of(load.requests, load.batch), 1,
                                   std::max<uint64_t>(1, load.at_once_max));
  uint64_t best = 1;
  double highest = 0;
  for (uint64_t k = 1; k <= most; ++k) {
    auto slowdown = slowdown_of(load, k);
    auto throughput = static_cast<double>(k) / slowdown;
    if (throughput > highest + 1e-9
        && (k == 1 || load.solo * slowdown <= load.slo)) {
      highest = throughput;
      best = k;
    }
  }
  return best;
}

} // namespace millrace

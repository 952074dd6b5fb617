// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/place/order.hpp"

#include <queue>
#include <tuple>

#include "actors/policies/place/filters.hpp"

namespace millrace {

namespace {

/// Places replicas in an order of request numbers.
placement_map place_in_order(const std::vector<size_t>& order,
                             std::span<const placement_request> wanted,
                             capacity_reservation& room,
                             const chooser_factory& choosers) {
  placement_map out;
  std::vector<device_chooser> next(wanted.size());
  std::vector<uint64_t> left(wanted.size());
  for (auto i : order) {
    if (!next[i])
      next[i] = choosers(i);
    auto at = left[i] > 0 ? std::nullopt : next[i]();
    if (!at) {
      ++left[i];
      continue;
    }
    room.book(*at, *wanted[i].group);
    out.chosen.push_back({i, *at});
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    if (left[i] > 0)
      out.refused.push_back(refuse(room.room(), wanted[i], i, left[i]));
  return out;
}

} // namespace

std::vector<size_t> placing_order(std::span<const placement_request> wanted) {
  std::vector<uint64_t> placed(wanted.size());
  // Smaller is earlier: priority, beyond least, fraction, number.
  using rank = std::tuple<int64_t, bool, double, size_t>;
  auto rank_of = [&](size_t i) {
    auto& x = wanted[i];
    auto there = x.there + placed[i];
    auto all = std::max<uint64_t>(1, std::max(x.group->count, there));
    return rank{-x.group->priority, there >= x.group->least,
                static_cast<double>(there) / static_cast<double>(all), i};
  };
  std::priority_queue<rank, std::vector<rank>, std::greater<>> next;
  size_t count = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    count += wanted[i].missing;
    if (wanted[i].missing > 0)
      next.push(rank_of(i));
  }
  std::vector<size_t> out;
  out.reserve(count);
  while (!next.empty()) {
    auto i = std::get<size_t>(next.top());
    next.pop();
    out.push_back(i);
    if (++placed[i] < wanted[i].missing)
      next.push(rank_of(i));
  }
  return out;
}

placement_map place_groups(std::span<const placement_request> wanted,
                           capacity_reservation& room,
                           const std::function<chooser_factory()>& begin) {
  std::vector<size_t> by_group;
  for (size_t i = 0; i < wanted.size(); ++i)
    by_group.insert(by_group.end(), wanted[i].missing, i);
  auto out = place_in_order(by_group, wanted, room, begin());
  if (out.refused.empty() || wanted.size() == 1)
    return out;
  room.undo();
  return place_in_order(placing_order(wanted), wanted, room, begin());
}

} // namespace millrace

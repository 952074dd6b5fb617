// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/place/order.hpp"

#include <queue>
#include <tuple>

namespace millrace {

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

} // namespace millrace

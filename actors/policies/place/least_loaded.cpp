// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/place/least_loaded.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "actors/policies/place/filters.hpp"
#include "actors/policies/place/order.hpp"

namespace millrace {

namespace {

/// Yields devices for the replicas of one group: always the device with room
/// and the fewest replicas.
class candidates {
public:
  candidates(const device_capacity& room, const replica_group& group)
    : room_(room),
      group_(group),
      eligible_(eligible_devices(room, group)) {
    renew();
  }

  /// The next device; nothing when no device has room.
  std::optional<size_t> next() {
    for (;;) {
      while (!open_.empty()) {
        std::pop_heap(open_.begin(), open_.end(), std::greater{});
        auto [load, at] = open_.back();
        if (!has_room(room_, group_, at, whole_)) {
          open_.pop_back(); // for good: room only shrinks
          continue;
        }
        open_.back() = {room_[at].load, at};
        std::push_heap(open_.begin(), open_.end(), std::greater{});
        if (load == room_[at].load)
          return at;
      }
      if (!std::exchange(whole_, false))
        return std::nullopt;
      renew();
    }
  }

private:
  /// Load of a device at the last visit, and the number of the device. Loads
  /// only grow, so a top entry with an up-to-date load is the minimum.
  using entry = std::pair<size_t, size_t>;

  void renew() {
    open_.clear();
    for (auto at : eligible_)
      open_.emplace_back(room_[at].load, at);
    std::make_heap(open_.begin(), open_.end(), std::greater{});
  }

  const device_capacity& room_;
  const replica_group& group_;
  std::vector<size_t> eligible_;
  bool whole_ = true; ///< first where the whole model has room
  std::vector<entry> open_;
};

/// Places replicas in an order of request numbers.
placement_map place_in_order(const std::vector<size_t>& order,
                             std::span<const placement_request> wanted,
                             device_capacity room) {
  placement_map out;
  std::vector<std::optional<candidates>> devices(wanted.size());
  std::vector<uint64_t> left(wanted.size());
  for (auto i : order) {
    auto& group = *wanted[i].group;
    if (!devices[i])
      devices[i].emplace(room, group);
    auto at = left[i] > 0 ? std::nullopt : devices[i]->next();
    if (!at) {
      ++left[i];
      continue;
    }
    room.book(*at, group);
    out.chosen.push_back({i, *at});
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    if (left[i] > 0)
      out.refused.push_back(refuse(room, wanted[i], i, left[i]));
  return out;
}

} // namespace

placement_map
least_loaded_placement::place(const cluster_snapshot&,
                              std::span<const placement_request> wanted,
                              device_capacity room) const {
  std::vector<size_t> by_group;
  for (size_t i = 0; i < wanted.size(); ++i)
    by_group.insert(by_group.end(), wanted[i].missing, i);
  auto out = place_in_order(by_group, wanted, room);
  return out.refused.empty() || wanted.size() == 1
           ? out
           : place_in_order(placing_order(wanted), wanted, std::move(room));
}

} // namespace millrace

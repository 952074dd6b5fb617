// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/place/two_stage.hpp"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "actors/policies/place/filters.hpp"
#include "actors/policies/place/order.hpp"

namespace millrace {

namespace {

/// The hosts of one model during a decision. They are sorted into stages before
/// anything is booked; groups of one model share them.
class receivers {
public:
  receivers(const device_capacity& room, const replica_group& x, bool fill)
    : room_(room),
      fill_(fill),
      on_(room.devices_with(x)),
      primed_(room.hosts_with(x)),
      known_(room.host_count()) {
    auto awaiting = room.hosts_awaiting(x);
    primed_.insert(primed_.end(), awaiting.begin(), awaiting.end());
    for (auto host : primed_)
      known_[host] = true;
  }

  std::optional<size_t> next(const replica_group& x) {
    auto out = choose(x);
    if (out)
      mine_.insert(*out);
    return out;
  }

private:
  std::optional<size_t> choose(const replica_group& x) {
    for (auto whole : {true, false}) {
      for (auto host : primed_) // stages 1 and 2
        if (auto at = device_on(host, x, whole))
          return at;
      for (auto fresh : {fill_, !fill_}) // stages 4 and 3, or 3 and 4
        if (auto at = fresh ? in_turn(x, whole) : on_another_host(x, whole))
          return at;
    }
    for (auto whole : {true, false})
      if (auto at = pick_device(room_, x, device_order::emptiest, whole,
                                [](auto) { return true; }))
        return at;
    return std::nullopt;
  }

  /// The least loaded device of a host without a replica of the model.
  std::optional<size_t> device_on(size_t host, const replica_group& x,
                                  bool whole) const {
    std::optional<size_t> out;
    auto [first, last] = room_.devices_of(host);
    for (auto at = first; at < last; ++at)
      if (room_[at].has_units(room_[at].units, x.units)
          && (!out || room_[at].load < room_[*out].load) && is_free(at)
          && is_eligible(room_, x, at) && has_room(room_, x, at, whole))
        out = at;
    return out;
  }

  bool is_free(size_t device) const {
    return !mine_.contains(device)
           && (on_ == nullptr || !on_->contains(device));
  }

  /// Stage 3.
  std::optional<size_t> on_another_host(const replica_group& x, bool whole) {
    auto at =
      pick_device(room_, x, device_order::emptiest, whole, [&](auto device) {
        return !known_[room_[device].host] && is_free(device);
      });
    if (at) {
      known_[room_[*at].host] = true;
      fresh_.push_back(room_[*at].host);
    }
    return at;
  }

  /// Stage 4.
  std::optional<size_t> in_turn(const replica_group& x, bool whole) {
    for (size_t i = 0; i < fresh_.size(); ++i) {
      auto host = fresh_[(turn_ + i) % fresh_.size()];
      if (auto at = device_on(host, x, whole)) {
        turn_ += i + 1;
        return at;
      }
    }
    return std::nullopt;
  }

  const device_capacity& room_;
  bool fill_;
  const std::map<size_t, uint64_t>* on_; ///< devices with a replica
  std::set<size_t> mine_;                ///< devices chosen in this decision
  std::vector<size_t> primed_; ///< hosts of stages 1 and 2, in this order
  std::vector<size_t> fresh_;  ///< hosts of stage 3, in the order of choice
  std::vector<bool> known_;    ///< hosts of either list, by number
  size_t turn_ = 0;            ///< position of the next host in fresh_
};

} // namespace

placement_map
two_stage_placement::place(const cluster_snapshot&,
                           std::span<const placement_request> wanted,
                           capacity_reservation& room) const {
  return place_groups(wanted, room, [&]() -> chooser_factory {
    using models =
      std::map<std::pair<std::string, uint64_t>, std::shared_ptr<receivers>>;
    auto all = std::make_shared<models>();
    for (auto& x : wanted) {
      auto& its = (*all)[{x.group->model, x.group->version}];
      if (!its)
        its = std::make_shared<receivers>(room.room(), *x.group, options_.fill);
    }
    return [&, all](size_t i) -> device_chooser {
      auto& group = *wanted[i].group;
      return [&group, its = all->at({group.model, group.version})] {
        return its->next(group);
      };
    };
  });
}

} // namespace millrace

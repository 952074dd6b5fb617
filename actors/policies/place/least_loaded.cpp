// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/place/least_loaded.hpp"

#include <set>
#include <utility>

#include "actors/policies/place/filters.hpp"
#include "actors/policies/place/order.hpp"

namespace millrace {

namespace {

/// Hosts that have a model loaded or are loading it.
std::set<size_t> hosts_of(const device_capacity& room, const replica_group& x) {
  std::set<size_t> out;
  for (auto& some : {room.hosts_with(x), room.hosts_awaiting(x)})
    out.insert(some.begin(), some.end());
  return out;
}

} // namespace

placement_map
least_loaded_placement::place(const cluster_snapshot&,
                              std::span<const placement_request> wanted,
                              capacity_reservation& room) const {
  return place_groups(wanted, room, [&]() -> chooser_factory {
    return [&](size_t i) -> device_chooser {
      std::set<size_t> used;
      if (options_.apart)
        used = hosts_of(room.room(), *wanted[i].group);
      // First devices with room for the whole model. Room only shrinks
      // meanwhile.
      return [&, i, used, whole = true, apart = options_.apart]() mutable {
        std::optional<size_t> out;
        do
          out = pick_device(
            room.room(), *wanted[i].group, device_order::emptiest, whole,
            [&](auto device) {
              return !apart || !used.contains(room.room()[device].host);
            });
        while (!out
               && (std::exchange(apart, false) || std::exchange(whole, false)));
        if (out)
          used.insert(room.room()[*out].host);
        return out;
      };
    };
  });
}

} // namespace millrace

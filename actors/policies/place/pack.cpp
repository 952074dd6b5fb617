// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/place/pack.hpp"

#include "actors/policies/place/filters.hpp"
#include "actors/policies/place/order.hpp"

namespace millrace {

namespace {

/// Returns the device for a replica. Preferred are devices with room for the
/// whole model and, for a part, devices without other parts.
std::optional<size_t> fullest_device(const device_capacity& room,
                                     const replica_group& x) {
  auto is_part = room.is_part(x);
  for (auto shares : {false, true}) {
    if (shares && !is_part)
      break;
    for (auto whole : {true, false})
      if (auto at = pick_device(
            room, x, device_order::fullest, whole, [&](auto device) {
              return shares || !is_part || !room.has_replica(device, x);
            }))
        return at;
  }
  return std::nullopt;
}

} // namespace

placement_map pack_placement::place(const cluster_snapshot&,
                                    std::span<const placement_request> wanted,
                                    capacity_reservation& room) const {
  return place_groups(wanted, room, [&]() -> chooser_factory {
    return [&](size_t i) -> device_chooser {
      return [&, i] { return fullest_device(room.room(), *wanted[i].group); };
    };
  });
}

} // namespace millrace

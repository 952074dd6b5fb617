// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/policies/place/placement_policy.hpp"
#include "runtime/names.hpp"

namespace millrace {

/// The conditions for a replica on a device, checked in this order.
enum class placement_filter : uint8_t {
  draining, ///< its node accepts new replicas
  device,   ///< the group's selector names it
  avoid,    ///< the group does not avoid its node
  bundle,   ///< its node has the bundle, or can fetch it
  cache,    ///< its node has memory for a bundle that it fetches
  memory,   ///< it has memory for the replica
  units     ///< it has units for the replica
};

constexpr auto names_of(placement_filter) {
  return name_table{"draining", "device", "avoid", "bundle",
                    "cache",    "memory", "units"};
}

/// Whether a group's selector and `avoid` admit a device.
bool is_selected(const replica_group& group, const std::string& node,
                 const device_info& device);

/// Whether a device passes all filters before `cache`.
bool is_eligible(const device_capacity& room, const replica_group& group,
                 size_t device);

/// Devices that pass all filters before `cache`.
std::vector<size_t> eligible_devices(const device_capacity& room,
                                     const replica_group& group);

/// Whether a device passes `cache`, `memory` and `units`. With `whole`, memory
/// is needed for all layers of the model instead of the group's layers: a part
/// that becomes a whole replica needs that much.
bool has_room(const device_capacity& room, const replica_group& group,
              size_t device, bool whole = false);

/// The first device in an order that passes all filters, and for which `pass`
/// is true. `whole` as in has_room.
template <class Pass>
std::optional<size_t> pick_device(const device_capacity& room,
                                  const replica_group& group, device_order by,
                                  bool whole, const Pass& pass) {
  return room.first_device(by, group, whole, [&](size_t at) {
    return is_eligible(room, group, at) && has_room(room, group, at, whole)
           && pass(at);
  });
}

/// The refusal of `count` replicas of a request, with the filter that no device
/// passed, and for memory and units with the amounts asked and free.
placement_map::refusal refuse(const device_capacity& room,
                              const placement_request& request, size_t number,
                              uint64_t count);

/// Validates a map. Returns the first fault: an unknown device, a device that
/// fails a filter, or more replicas than requested. Nothing: the map is valid.
std::optional<std::string> find_fault(const placement_map& map,
                                      std::span<const placement_request> wanted,
                                      device_capacity& room);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/policies/place/placement_policy.hpp"
#include "runtime/names.hpp"

namespace millrace {

/// What a device has to pass to get a replica, in this order.
enum class placement_filter : uint8_t {
  draining, ///< its node takes new replicas
  device,   ///< the group's selector names it
  avoid,    ///< the group does not avoid its node
  bundle,   ///< its node has the bundle, or can fetch it
  cache,    ///< its node has memory for a bundle that it fetches
  memory    ///< it has memory for the replica
};

constexpr auto names_of(placement_filter) {
  return name_table{"draining", "device", "avoid", "bundle", "cache", "memory"};
}

/// Whether a group's selector and `avoid` admit a device.
bool is_selected(const replica_group& x, const std::string& node,
                 const device_info& device);

/// Devices that pass all filters but those of room, `cache` and `memory`.
std::vector<size_t> eligible_devices(const device_capacity& room,
                                     const replica_group& x);

/// Whether a device has room; with `whole`, for all layers of the model in the
/// place of the group's, which a part needs that becomes a whole replica.
bool has_room(const device_capacity& room, const replica_group& x,
              size_t device, bool whole = false);

/// Why no device can take `count` replicas of a request.
placement_map::refusal refuse(const device_capacity& room,
                              const placement_request& x, size_t number,
                              uint64_t count);

/// Why a map must not be carried out: a device that is not there, that the
/// group may not use, or that has no room, or more replicas than were asked
/// for. Nothing: it is valid.
std::optional<std::string> find_fault(const placement_map& x,
                                      std::span<const placement_request> wanted,
                                      device_capacity room);

} // namespace millrace

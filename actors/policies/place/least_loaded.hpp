// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/place/placement_policy.hpp"

namespace millrace {

struct least_loaded_options {
  MILLRACE_FIELDS(least_loaded_options)
  static constexpr auto notes() { return std::array<note, 0>{}; }
};

/// Policy `least_loaded`: places each replica on the device with the fewest
/// replicas among the devices with room. A part that becomes a whole replica
/// goes first to devices with room for the whole model. Replicas are placed
/// group by group, which spreads a group over nodes. When some replica finds no
/// room, placement starts over in the order of placing_order.
class least_loaded_placement : public placement_policy {
public:
  explicit least_loaded_placement(const least_loaded_options&) {}

  placement_map place(const cluster_snapshot& snapshot,
                      std::span<const placement_request> wanted,
                      capacity_reservation& room) const override;
};

} // namespace millrace

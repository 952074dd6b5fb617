// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/place/placement_policy.hpp"

namespace millrace {

struct least_loaded_options {
  bool apart = false;
  MILLRACE_FIELDS(least_loaded_options, apart)
  static constexpr auto notes() {
    return std::array{
      note{"whether a replica goes first to a host without one of its model"}};
  }
};

/// Policy `least_loaded`: places each replica on the device with the fewest
/// replicas among the devices with room. A part that becomes a whole replica
/// goes first to devices with room for the whole model. With `apart` hosts
/// without a replica of the model come before others. Replicas are placed
/// group by group, which spreads a group over nodes. When some replica finds no
/// room, placement starts over in the order of placing_order.
class least_loaded_placement : public placement_policy {
public:
  explicit least_loaded_placement(const least_loaded_options& options)
    : options_(options) {}

  placement_map place(const cluster_snapshot& snapshot,
                      std::span<const placement_request> wanted,
                      capacity_reservation& room) const override;

private:
  least_loaded_options options_;
};

} // namespace millrace

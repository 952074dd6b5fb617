// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/place/placement_policy.hpp"

namespace millrace {

struct least_loaded_options {
  MILLRACE_FIELDS(least_loaded_options)
  static constexpr auto notes() { return std::array<note, 0>{}; }
};

/// Policy `least_loaded`: each replica goes to the device that has the fewest
/// replicas, of those with room. A part that is to become a whole replica goes
/// where there is room for that, if there is such a device. Replicas are placed
/// group by group, which puts those of one group on unlike nodes; where not all
/// have room, in the order of placing_order, which shares it.
class least_loaded_placement : public placement_policy {
public:
  explicit least_loaded_placement(const least_loaded_options&) {}

  placement_map place(const cluster_snapshot& snapshot,
                      std::span<const placement_request> wanted,
                      device_capacity room) const override;
};

} // namespace millrace

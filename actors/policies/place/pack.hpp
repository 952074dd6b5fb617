// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/place/placement_policy.hpp"

namespace millrace {

struct pack_options {
  MILLRACE_FIELDS(pack_options)
  static constexpr auto notes() { return std::array<note, 0>{}; }
};

/// Policy `pack`: places each replica on the fullest device on which it fits
/// (best fit): the smallest unused part of what limits the device, memory or
/// units; of several the one with most replicas. Keeps devices free for large
/// replicas. A part of a model goes to a device without another of its parts
/// while such a device has room: parts of one copy run at the same time.
class pack_placement : public placement_policy {
public:
  explicit pack_placement(const pack_options&) {}

  placement_map place(const cluster_snapshot& snapshot,
                      std::span<const placement_request> wanted,
                      capacity_reservation& room) const override;
  bool spreads() const override { return false; }
};

} // namespace millrace

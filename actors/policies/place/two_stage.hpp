// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/place/placement_policy.hpp"

namespace millrace {

struct two_stage_options {
  bool fill = false;
  MILLRACE_FIELDS(two_stage_options, fill)
  static constexpr auto notes() {
    return std::array{note{
      "whether a further host gets replicas on all of its devices before"
      " the next host gets one, in place of one device of each host first"}};
  }
};

/// Policy `two_stage`: the receivers of Flashpoint (section 5.2.3; 3.11 of the
/// digest). Places the replicas of a model, all of one decision together:
///
/// 1. on the devices of hosts that have the model in memory, host by host;
/// 2. on those of hosts where it arrives (one download serves the host);
/// 3. on one device of each other host, the least loaded first;
/// 4. on further devices of the hosts of 3, in turn;
/// 5. beside another replica of the model, on the least loaded device.
///
/// With `fill` 4 comes before 3, as without Flashpoint's second stage.
///
/// Before 5 a device gets no second replica of the model, so that parts share a
/// device only where all others lack room. The thesis leaves 2, 4 and 5 open.
class two_stage_placement : public placement_policy {
public:
  explicit two_stage_placement(const two_stage_options& options)
    : options_(options) {}

  placement_map place(const cluster_snapshot& snapshot,
                      std::span<const placement_request> wanted,
                      capacity_reservation& room) const override;
  bool spreads() const override { return false; }

private:
  two_stage_options options_;
};

} // namespace millrace

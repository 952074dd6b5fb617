// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "actors/policies/state/device_capacity.hpp"
#include "transport/messages/snapshot.hpp"

namespace millrace {

/// Replicas of one group that need devices.
struct placement_request {
  const replica_group* group;
  uint64_t there = 0;   ///< replicas of the group that run or start
  uint64_t missing = 0; ///< replicas to place
};

/// The result of a policy: a device per replica. Requests and devices are
/// numbers: positions in `wanted` and in the capacity index.
struct placement_map {
  struct choice {
    size_t request;
    size_t device;
  };
  struct refusal {
    size_t request;
    uint64_t count;     ///< replicas without a device
    std::string filter; ///< name of the filter that no device passed
    std::string why;
  };
  std::vector<choice> chosen;
  std::vector<refusal> refused;
};

/// Maps replica groups to devices. Stateless. Same arguments, same map.
class placement_policy {
public:
  virtual ~placement_policy() = default;

  /// `room` is a reservation on the capacity index, where the policy books
  /// replicas; the caller undoes it. The index includes outstanding orders, so
  /// its nodes are newer than those of the snapshot.
  virtual placement_map place(const cluster_snapshot& snapshot,
                              std::span<const placement_request> wanted,
                              capacity_reservation& room) const = 0;

  /// Whether a group with all replicas on one node moves a replica to another
  /// node that has room.
  virtual bool spreads() const { return true; }
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "models/device/sharing.hpp"

namespace millrace {

/// Decides which batch a device begins next, and when. Batches wait in order of
/// priority, then of arrival. A batch of a replica at its limit is passed
/// over by later batches of other replicas, until one of its replica ends. The
/// limits hold for the device, whichever gateways send the batches. Pure.
///
/// Wave is PALDIA's spatial part, then the serial rest (section 4.1, the sum in
/// equation 1):
///
///     open (begun < at_once) --at_once have begun--> closed: one at a time
///       ^------------- nothing waits, nothing runs -------------'
class admission {
public:
  admission(uint32_t lanes, const device_sharing& sharing)
    : lanes_(std::max(1u, lanes)),
      sharing_(sharing) {}

  void push(uint64_t id, uint64_t instance, int32_t priority) {
    waiting_.emplace(std::pair{-int64_t{priority}, next_++},
                     batch{id, instance});
  }

  /// The next batch for the device, if one may begin. Each is followed by one
  /// call of ended or returned.
  std::optional<uint64_t> next();

  /// A batch of the instance has run or failed on the device.
  void ended(uint64_t instance);

  /// `next` returned a batch of the instance, and the device did not get it.
  void returned(uint64_t instance);

  /// Batches that the device has stay there.
  void set_sharing(const device_sharing& sharing);
  const device_sharing& sharing() const { return sharing_; }

  /// Batches of a loaded instance that the device has at once; 0: only limited
  /// by device_sharing::per_replica.
  void set_limit(uint64_t instance, uint32_t limit);

  /// The instance is unloaded: its batches that wait are limited no more.
  void forget(uint64_t instance);

  size_t waiting() const { return waiting_.size(); }

  /// Batches that may run on the device together now, whichever replicas they
  /// are of; at least 1.
  uint32_t places() const;

private:
  /// Batches that a lane has in mode lanes: one runs, one is next.
  static constexpr uint32_t per_lane = 2;

  struct batch {
    uint64_t id;
    uint64_t instance;
  };
  struct replica_room {
    bool loaded = false; ///< between set_limit and forget
    uint32_t limit = 0;
    uint32_t held = 0; ///< batches that the device has
  };
  using queue = std::map<std::pair<int64_t, uint64_t>, batch>;

  bool takes_another() const;
  bool is_full(uint64_t instance) const;
  queue::iterator first_allowed();
  void give_back(uint64_t instance);

  const uint32_t lanes_;
  device_sharing sharing_;
  queue waiting_;
  std::unordered_map<uint64_t, replica_room> replicas_; ///< by instance
  size_t limited_ = 0; ///< loaded instances with a limit of their own
  uint32_t held_ = 0;  ///< batches that the device has
  uint64_t begun_ = 0; ///< since the current wave opened
  uint64_t next_ = 0;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "models/device/sharing.hpp"

namespace millrace {

/// Decides which batch a device begins next, and when. Batches wait by
/// priority, then FIFO. While a replica is at its limit, later batches of other
/// replicas overtake its batches. The limits hold for all gateways together.
/// Pure.
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

  /// The next batch for the device; none: none may begin. The caller calls
  /// ended or returned once for each batch.
  std::optional<uint64_t> next();

  /// A batch of the instance has run or failed on the device.
  void ended(uint64_t instance);

  /// The device did not get a batch of the instance that `next` returned.
  void returned(uint64_t instance);

  /// Changes the sharing. Batches on the device stay there.
  void set_sharing(const device_sharing& sharing);
  const device_sharing& sharing() const { return sharing_; }

  /// Sets the most batches of a loaded instance on the device; 0: only limited
  /// by device_sharing::per_replica.
  void set_limit(uint64_t instance, uint32_t limit);

  /// The instance is unloaded: its waiting batches have no limit from now on.
  void forget(uint64_t instance);

  size_t waiting() const { return waiting_.size(); }

  /// Most batches of all replicas that may run together now; at least 1.
  uint32_t places() const;

private:
  /// Batches per lane in mode lanes: one runs, one is next.
  static constexpr uint32_t per_lane = 2;

  struct batch {
    uint64_t id;
    uint64_t instance;
  };
  struct replica_room {
    bool loaded = false; ///< between set_limit and forget
    uint32_t limit = 0;
    uint32_t held = 0; ///< batches on the device
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
  uint32_t held_ = 0;  ///< batches on the device
  uint64_t begun_ = 0; ///< batches begun since the current wave opened
  uint64_t next_ = 0;
};

} // namespace millrace

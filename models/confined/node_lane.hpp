// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "models/confined/arena_pool.hpp"
#include "models/confined/orders.hpp"
#include "runtime/records.hpp"

namespace millrace::confined {

/// The node's end of a lane, with the memory that its next run lies in.
struct node_lane {
  file_descriptor connection;
  arena_pool arenas;
  std::shared_ptr<arena_pool::slot> slot = arenas.take(); ///< the next run's

  arena& memory() const { return slot->memory; }

  /// Another memory, of so many bytes at least. Errors: too_large, and the
  /// system's.
  result<void> widen(size_t bytes) const;

  /// With the memory, if the order says that it is a new one. False: it is
  /// lost.
  bool send(const lane_order& order) const;

  /// What a run has left in memory. That stays with it, if it is worth that,
  /// takes no more than a part of what the `process` may, and the next run can
  /// have another. One that the model goes on using has no next run: it is not
  /// `usable`.
  result<tensor_list> take_out(size_t count, bool usable, byte_count process);
};

} // namespace millrace::confined

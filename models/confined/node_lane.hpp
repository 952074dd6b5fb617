// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "models/confined/arena_pool.hpp"
#include "models/confined/orders.hpp"
#include "runtime/records.hpp"

namespace millrace::confined {

/// The node's end of a lane, with the arena of its next run.
struct node_lane {
  file_descriptor connection;
  arena_pool arenas;
  std::shared_ptr<arena_pool::slot> slot = arenas.take(); ///< for the next run

  arena& memory() const { return slot->memory; }

  /// Replaces the arena by one of at least `bytes` bytes.
  /// Errors: too_large, and the system's.
  result<void> widen(size_t bytes) const;

  /// Sends an order, with the arena's descriptor if the order announces a new
  /// one. False: the connection is lost.
  bool send(const lane_order& order) const;

  /// The outputs of a run. They stay in the arena if they are large enough, the
  /// arena takes a small part of the `process` limit of memory, and another
  /// arena is free for the next run; else they are copied out. If the model
  /// keeps using the arena, it is not `usable` for a next run and is dropped.
  result<tensor_list> take_out(size_t count, bool usable, byte_count process);
};

} // namespace millrace::confined

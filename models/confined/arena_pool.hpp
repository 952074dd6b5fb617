// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "models/confined/arena.hpp"

namespace millrace::confined {

/// The arenas that the runs on one lane use in turn. The outputs of a run can
/// stay in their arena while they are used, for the next run takes another
/// arena. Any thread.
class arena_pool {
public:
  /// Number of arenas; the process knows each by its number.
  static constexpr uint32_t size = 4;

  struct slot {
    uint32_t number = 0;
    arena memory; ///< empty until first used
  };

  arena_pool();

  /// The free arena that was returned last; null if all are in use. It is
  /// returned when its last user drops the pointer, which may outlive the pool.
  std::shared_ptr<slot> take();

private:
  struct state;

  std::shared_ptr<state> state_;
};

} // namespace millrace::confined

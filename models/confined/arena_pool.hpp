// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "models/confined/arena.hpp"

namespace millrace::confined {

/// The arenas that the runs on one lane take turns with: what a run gave may
/// stay where it lies until nobody needs it any more, for the next run has
/// another. Any thread.
class arena_pool {
public:
  /// So many, which the process knows by their numbers.
  static constexpr uint32_t size = 4;

  struct slot {
    uint32_t number = 0;
    arena memory; ///< empty until somebody makes one
  };

  arena_pool();

  /// One that nobody has, of these the one that came back last; it comes back
  /// with its last user, who may outlive the pool. Null: there is none.
  std::shared_ptr<slot> take();

private:
  struct state;

  std::shared_ptr<state> state_;
};

} // namespace millrace::confined

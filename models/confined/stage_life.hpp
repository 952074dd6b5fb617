// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Life of a stage in a sandboxed process. Problem: the process loads and runs
/// unchecked code, while its weights may still arrive, and must
/// end with the node. Approach: the node sends orders on the life line (a
/// socket); the end of the line ends the stage. Each lane is a second socket
/// with a thread of its own.
///
/// Called by inside.cpp, on a thread per stage. States:
///
///     loading ──loaded──▶ arriving ──order warm_up──▶ warming up ──▶ serving
///        │                   │ order part: weights        │             │
///        │                   └────────▶ (same)            │             │
///        └── error: answered, then ends ──────────────────┘             │
///     (end of the life line) ◀──────────────────────────────────────────┘
///
/// With pipelined loading on a GPU the first pass starts while parts arrive.

#include <mutex>
#include <optional>
#include <vector>

#include "models/confined/orders.hpp"
#include "runtime/error.hpp"
#include "runtime/file_descriptor.hpp"

namespace millrace::confined {

/// The confinement of a process, common to its stages: opens the GPU if one is
/// needed, then gives up all rights, before any model's code runs.
class process_environment {
public:
  /// The argument: whether the process runs as the user of sandboxes; after a
  /// failure prepare() fails.
  explicit process_environment(result<void> nobody)
    : nobody_(std::move(nobody)) {}

  /// Confines the process. The first call does so, before the process has other
  /// threads than the driver's; all calls return its result.
  result<void> prepare(const life_order& order);

private:
  result<void> nobody_;
  std::mutex mutex_;
  std::optional<result<void>> prepared_; ///< guarded
};

/// Takes a model's file apart for the node, by its first order.
void take_apart_for_node(process_environment& environment,
                         const life_order& order,
                         std::vector<file_descriptor> files);

/// Loads a stage, by its first order, and runs it until the node closes its
/// life line and its lanes.
void live_as_stage(process_environment& environment,
                   const file_descriptor& life, const life_order& order,
                   std::vector<file_descriptor> files);

} // namespace millrace::confined

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "models/confined/orders.hpp"
#include "runtime/error.hpp"
#include "runtime/file_descriptor.hpp"

namespace millrace::confined {

/// What a confined process is, beside the stages that it runs: whoever needs a
/// GPU opens it, and then gives up all rights, before any model's code runs.
class process_environment {
public:
  /// `nobody`: whether it is nobody's; else it runs nothing.
  explicit process_environment(result<void> nobody)
    : nobody_(std::move(nobody)) {}

  /// The first call does that, before it has other threads than the driver's;
  /// all of them return how that went.
  result<void> prepare(const life_order& x);

private:
  result<void> nobody_;
  std::mutex mutex_;
  std::optional<result<void>> prepared_; ///< guarded
};

/// Takes a model's file apart for the node, as a first order says.
void take_apart_for_node(process_environment& environment,
                         const life_order& order,
                         std::vector<file_descriptor> files);

/// Loads a stage, as a first order says, and runs it until the node has closed
/// its life line and its lanes.
void live_as_stage(process_environment& environment,
                   const file_descriptor& life, const life_order& order,
                   std::vector<file_descriptor> files);

} // namespace millrace::confined

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "simulator/recorder.hpp"

namespace millrace::simulator {

/// The replica counts of a model from a moment until the model's next row.
struct replica_count {
  microseconds at{0}; ///< since the start of the workload
  std::string model;
  /// Set by the last decision of the model's scope, else by its settings.
  int64_t wanted = 0;
  /// Replicas on a device or decided on: from the decision (without one, from
  /// the begin of the load) to the end of the replica.
  int64_t reserved = 0;
  int64_t ready = 0; ///< loaded
};

/// One row for each change of a model's counts, sorted by time and model name.
/// Replicas of a stage count as replicas.
std::vector<replica_count> replica_counts(const record& run);

} // namespace millrace::simulator

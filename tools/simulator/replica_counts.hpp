// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "simulator/recorder.hpp"

namespace millrace::simulator {

/// Replicas of a model from a moment on, until the model's next row.
struct replica_count {
  microseconds at{0}; ///< since the start of the workload
  std::string model;
  /// By the last decision of its scope; until there is one, by its settings.
  int64_t wanted = 0;
  /// On a device, or decided on: from the decision, or else the begin of the
  /// load, to the replica's end.
  int64_t reserved = 0;
  int64_t ready = 0; ///< loaded
};

/// A row for each moment at which a count of a model changed, in order of time
/// and of the models' names. With models in parts, replicas of parts count as
/// replicas.
std::vector<replica_count> replica_counts(const record& run);

} // namespace millrace::simulator

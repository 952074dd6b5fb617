// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "actors/handles.hpp"

namespace millrace {

/// Of a batch that is measured, and sizes of batches at once.
constexpr uint64_t max_rows_measured = 1024;
constexpr size_t max_sizes_measured = 16;

/// Of inputs' free extents beside the rows.
constexpr uint64_t max_extent_measured = 65'536;

struct measurer_options {
  std::string source; ///< of the profile
  std::string kind;   ///< of the device
  executor_actor executor;
  cache_actor cache;
  /// Told of each stage that is done, on the actor's thread.
  std::function<void(size_t done, size_t all)> progress;
};

/// Measures a model on a device that has nothing else to do: all its layers,
/// then each by itself, loaded and run like any replica's, so on every kind of
/// device. Makes points with these metrics, of all layers and of each (with the
/// dimension `layer`):
///
///   execute_seconds   of a batch, by rows: the median of some runs; of a layer
///                     its share of what all take together, without what each
///                     run takes whatever it runs (so do attach_seconds of
///                     loads)
///   memory_bytes      parameters, once loaded
///   activation_bytes  what a run needs beside that, by rows: what it takes,
///                     and the tensors that it had allocated at most at a time,
///                     among them what it gives; of a device that cannot tell
///                     these, what it takes and gives
///   open_seconds      all: until the bundle is mapped and verified
///   load_seconds      all: from there to the device
///   warm_up_seconds   all; the planner shares it out by execute_seconds
///   parameter_bytes, attach_seconds, output_bytes
///                     each, as layer_costs_of takes them; what each load needs
///                     whatever it loads is in part_attach_seconds, of all
///
/// Flashpoint 4.2.3 and 7.2, FP-06 and FP-07. Answers one measure, then ends.
/// Errors: unavailable when somebody else uses the device, or what was loaded
/// is lost; those of loading and running.
measurer_actor::behavior_type
measurer(measurer_actor::stateful_pointer<struct measurer_state> self,
         measurer_options options);

} // namespace millrace

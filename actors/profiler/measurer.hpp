// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "actors/handles.hpp"

namespace millrace {

/// Limits of one measure: rows of a batch, and number of batch sizes.
constexpr uint64_t max_rows_measured = 1024;
constexpr size_t max_sizes_measured = 16;

/// Limit of the free extents of inputs, other than the rows.
constexpr uint64_t max_extent_measured = 65'536;

struct measurer_options {
  std::string source; ///< of the profile
  std::string kind;   ///< of the device
  executor_actor executor;
  cache_actor cache;
  /// Called after each stage, on the actor's thread.
  std::function<void(size_t done, size_t all)> progress;
};

/// The MEASURER measures a model on an idle device: all layers as one stage,
/// then each layer as a stage. A stage is loaded and run as for a replica, so
/// measuring works on every kind of device. The points have these metrics, for
/// all layers and for each layer (with the dimension `layer`):
///
///     execute_seconds   of a batch, by rows: median of several runs; of one
///                       layer, its share of the run of all layers, without the
///                       fixed cost of a run (attach_seconds: the same for
///                       loads)
///     memory_bytes      loaded parameters
///     activation_bytes  additional memory of a run, by rows: inputs, and the
///                       peak of allocated tensors with outputs; inputs and
///                       outputs on a device without this meter
///     open_seconds      all: until the bundle is mapped and verified
///     load_seconds      all: from then until loaded on the device
///     warm_up_seconds   all; the planner divides it by execute_seconds
///     parameter_bytes, attach_seconds, output_bytes
///                       each, as input of layer_costs_of; the fixed cost of a
///                       load is part_attach_seconds, of all
///
/// Flashpoint 4.2.3 and 7.2, FP-06 and FP-07. Answers one measure, then ends.
/// Errors: unavailable when the device has other work, or a loaded stage is
/// lost; errors of loads and runs.
measurer_actor::behavior_type
measurer(measurer_actor::stateful_pointer<struct measurer_state> self,
         measurer_options options);

} // namespace millrace

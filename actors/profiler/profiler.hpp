// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "actors/handles.hpp"
#include "models/partition/layer_costs.hpp"
#include "models/profile_book.hpp"

namespace millrace {

struct profiler_options {
  bus* net = nullptr;
  std::shared_ptr<store> facts;
  /// Interval of polls of replica costs.
  microseconds period = 5s;
  host_link link; ///< used by plans when no worker reports its link
  /// Runs a long job outside of the actors.
  std::function<void(std::function<void()>)> aside;
  /// The current CLUSTER STATE, the receiver of the cost book; may be empty.
  std::function<cluster_state_actor()> cluster_state{};
  /// Initial profiles. A stored profile takes precedence. May be null.
  std::shared_ptr<const profile_book> known{};
};

/// The PROFILER holds the costs of models. It stores measured and imported
/// profiles on disk, measures models on idle devices, and averages the costs of
/// serving replicas. A profile belongs to the layers of a model: versions with
/// other weights but the same layers share it.
profiler_actor::behavior_type
profiler(profiler_actor::stateful_pointer<struct profiler_state> self,
         profiler_options options);

} // namespace millrace

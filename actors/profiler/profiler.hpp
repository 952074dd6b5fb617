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
  /// Between two looks at what replicas take.
  microseconds period = 5s;
  host_link link; ///< that plans count with where no worker says what it has
  /// Has done elsewhere what would hold up everybody on this thread.
  std::function<void(std::function<void()>)> aside;
  /// The current CLUSTER STATE, the receiver of the cost book; may be empty.
  std::function<cluster_state_actor()> cluster_state{};
  /// Profiles to begin with, beside the stored ones, which take precedence; may
  /// be null.
  std::shared_ptr<const profile_book> known{};
};

/// Knows what models cost: keeps on disk what was measured or brought, has
/// models measured on devices that are idle, and averages what their replicas
/// take while they serve. A profile is of a model's layers: versions that
/// differ in their weights alone share it.
profiler_actor::behavior_type
profiler(profiler_actor::stateful_pointer<struct profiler_state> self,
         profiler_options options);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "actors/handles.hpp"
#include "runtime/store/store.hpp"

namespace millrace {

/// Keeps the settings of registered models, their pins and the settings of
/// scopes in a store, and tells the cluster state of every change. What it
/// acknowledges is on disk. `wall_clock` measures how long pins hold, over
/// restarts too; without it the clock of actors does.
registry_actor::behavior_type
registry(registry_actor::stateful_pointer<struct registry_state> self,
         std::shared_ptr<store> facts, cluster_state_actor cluster_state,
         placement_actor placement, registered defaults,
         std::function<microseconds()> wall_clock);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "actors/handles.hpp"
#include "runtime/store/store.hpp"

namespace millrace {

/// The REGISTRY stores settings and pins of models and settings of scopes, and
/// sends every change to CLUSTER STATE. A change is on disk before it is
/// acknowledged. `wall_clock` decides when pins end, over restarts too; when it
/// is empty the clock of actors decides.
registry_actor::behavior_type
registry(registry_actor::stateful_pointer<struct registry_state> self,
         std::shared_ptr<store> facts, cluster_state_actor cluster_state,
         placement_actor placement, registered defaults,
         std::function<microseconds()> wall_clock);

} // namespace millrace

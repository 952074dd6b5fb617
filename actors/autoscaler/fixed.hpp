// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"

namespace millrace {

/// The `fixed` policy: as many replicas as the settings say. Proposes for the
/// whole cluster, by the same messages as policies that look at load.
autoscaler_actor::behavior_type fixed_autoscaler(autoscaler_actor::pointer self,
                                                 placement_actor placement);

} // namespace millrace

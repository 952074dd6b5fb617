// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"
#include "runtime/host_probe.hpp"
#include "runtime/metrics.hpp"

namespace millrace {

/// Asks the node's executors and replicas, and the host, how busy they are,
/// once in a period (0: never); tells whoever asks, and the metrics.
monitor_actor::behavior_type
monitor(monitor_actor::stateful_pointer<struct monitor_state> self,
        host_probe probe, std::shared_ptr<metrics> counts, microseconds period);

} // namespace millrace

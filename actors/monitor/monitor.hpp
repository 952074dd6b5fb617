// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/handles.hpp"
#include "runtime/host_probe.hpp"
#include "runtime/metrics.hpp"

namespace millrace {

/// Has all GPUs of the host be read, and tells, from whatever thread: their
/// driver may hang, and who asks must not.
using gpu_probe = std::function<void(std::function<void(gpu_readings)> tell)>;

/// What a monitor asks beside executors and replicas.
struct monitor_probes {
  host_probe host;
  children_probe children;                ///< empty: there are none
  gpu_probe gpus;                         ///< empty: there are none
  std::map<std::string, uint32_t> gpu_of; ///< by device
};

/// Asks the node's executors and replicas, the host and its GPUs, how busy they
/// are, once in a period (0: never); tells whoever asks, and the metrics.
monitor_actor::behavior_type
monitor(monitor_actor::stateful_pointer<struct monitor_state> self,
        monitor_probes probes, std::shared_ptr<metrics> counts,
        microseconds period);

} // namespace millrace

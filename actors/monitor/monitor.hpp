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

/// Reads all GPUs of the host asynchronously, because a driver may hang. Calls
/// `tell` on any thread.
using gpu_probe = std::function<void(std::function<void(gpu_readings)> tell)>;

/// Probes of a MONITOR, beside executors and replicas.
struct monitor_probes {
  host_probe host;
  children_probe children;                ///< empty: no child processes
  gpu_probe gpus;                         ///< empty: no GPUs
  std::map<std::string, uint32_t> gpu_of; ///< GPU number, by device
};

/// The MONITOR polls the usage of the node's executors and replicas, the host
/// and its GPUs once per period (0: never). It answers with the latest usage,
/// and updates the metrics.
monitor_actor::behavior_type
monitor(monitor_actor::stateful_pointer<struct monitor_state> self,
        monitor_probes probes, std::shared_ptr<metrics> counts,
        microseconds period);

} // namespace millrace

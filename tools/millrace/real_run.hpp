// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>

#include "config/scenario.hpp"
#include "simulator/recorder.hpp"

namespace millrace {

/// A change of a model's number of replicas.
struct scaled_event {
  double at = 0;      ///< seconds since the workload began
  std::string change; ///< "MODEL FROM -> TO"
};

/// Parses a log line of the event autoscaler.scaled.
scaled_event scaled_at(double seconds, std::string_view line);

/// The result of running a scenario's cluster as real processes.
struct real_record {
  std::vector<simulator::request_row> requests;
  std::vector<scaled_event> scaled;       ///< in order
  std::map<std::string, uint64_t> events; ///< number of log events of all
                                          ///< nodes, by name
};

/// Runs a scenario with real processes: a process per node on this host,
/// emulated devices, ZeroMQ on loopback, and the same requests at the same
/// times. Injects only faults accepted by check_real_faults; ignores racks and
/// network settings. Writes config, bundles, data and logs into a directory.
/// Errors: unavailable, with the log's name, when the cluster does not start.
result<real_record> run_really(const loaded_scenario& what, uint64_t seed,
                               const std::string& directory,
                               const std::function<void(double)>& progress);

} // namespace millrace

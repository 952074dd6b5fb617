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

/// Of a log line of autoscaler.scaled.
scaled_event scaled_at(double seconds, std::string_view line);

/// What a scenario's cluster did as real processes.
struct real_record {
  std::vector<simulator::request_row> requests;
  std::vector<scaled_event> scaled;       ///< in order
  std::map<std::string, uint64_t> events; ///< of all logs, by name
};

/// Runs a scenario really: a process per node on this host, emulated devices,
/// ZeroMQ on loopback, and the same requests at the same times. Of the faults
/// those that check_real_faults accepts; racks and the network's settings are
/// left out. Config, bundles, data and logs go into a directory. Errors:
/// unavailable when the cluster does not come up, naming the log.
result<real_record> run_really(const loaded_scenario& what, uint64_t seed,
                               const std::string& directory,
                               const std::function<void(double)>& progress);

} // namespace millrace

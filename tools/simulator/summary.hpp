// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "simulator/recorder.hpp"

namespace millrace::simulator {

/// What became of the requests of one model, or of all.
struct served_summary {
  std::string model; ///< empty: all
  uint64_t requests = 0;
  std::map<std::string, uint64_t> statuses; ///< see outcome_of
  double goodput = 0;        ///< answers within the SLO, per second
  double slo_violations = 0; ///< part of the requests
  /// Of what was answered ok.
  double p50_ms = 0, p90_ms = 0, p99_ms = 0, p999_ms = 0, max_ms = 0;
  double queue_p50_ms = 0, queue_p99_ms = 0;
  double batch = 0; ///< requests executed together, on average
  MILLRACE_FIELDS(served_summary, model, requests, statuses, goodput,
                  slo_violations, p50_ms, p90_ms, p99_ms, p999_ms, max_ms,
                  queue_p50_ms, queue_p99_ms, batch)
};

/// A run on a page.
struct run_summary {
  std::string scenario;
  uint64_t seed = 0;
  double seconds = 0; ///< virtual, of the workload
  served_summary all;
  std::vector<served_summary> models;
  std::map<std::string, uint64_t> cold_starts; ///< by where the bytes were
  uint64_t failed_starts = 0;
  std::vector<std::string> never_ready; ///< models without a replica, ever
  double replica_seconds = 0;           ///< ready, during the workload
  double device_seconds = 0;            ///< of devices, whether used or not
  double utilisation = 0;               ///< part of those that something ran
  double cost = 0;                      ///< of the hosts reserved
  std::map<std::string, uint64_t> faults;
  uint64_t errors = 0;   ///< events at which a person must act
  uint64_t messages = 0; ///< that actors handled
  uint64_t actions = 0;  ///< of network, devices, disks, clients
  MILLRACE_FIELDS(run_summary, scenario, seed, seconds, all, models,
                  cold_starts, failed_starts, never_ready, replica_seconds,
                  device_seconds, utilisation, cost, faults, errors, messages,
                  actions)
};

/// What counts as in time for a request of that part of the workload.
microseconds slo_of(const loaded_scenario& what, const record& run,
                    const request_row& x);

run_summary summarise(const loaded_scenario& what, uint64_t seed,
                      const record& run);

} // namespace millrace::simulator

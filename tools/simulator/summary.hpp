// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "simulator/recorder.hpp"

namespace millrace::simulator {

/// The distribution of latencies, in milliseconds.
struct latency_summary {
  uint64_t requests = 0;
  double mean_ms = 0, p50_ms = 0, p75_ms = 0, p90_ms = 0, p95_ms = 0;
  double p99_ms = 0, p999_ms = 0, max_ms = 0;
  MILLRACE_FIELDS(latency_summary, requests, mean_ms, p50_ms, p75_ms, p90_ms,
                  p95_ms, p99_ms, p999_ms, max_ms)
};

/// Results of the requests of one model, or of all models.
struct served_summary {
  std::string model; ///< empty: all models
  uint64_t requests = 0;
  std::map<std::string, uint64_t> statuses; ///< see outcome_of
  double goodput = 0;        ///< answers within the SLO, per second
  double slo_violations = 0; ///< as a part of all requests
  /// Answers per second within 1, 1.5, 2 and 3 times the SLO.
  std::map<std::string, double> goodput_at_slo_times;
  /// Of all requests: until the answer, ok or not; without an answer, until the
  /// end of the run.
  latency_summary latency;
  latency_summary latency_ok;                ///< ok answers only
  double queue_p50_ms = 0, queue_p99_ms = 0; ///< ok answers only
  double batch = 0; ///< mean number of requests in a batch
  MILLRACE_FIELDS(served_summary, model, requests, statuses, goodput,
                  slo_violations, goodput_at_slo_times, latency, latency_ok,
                  queue_p50_ms, queue_p99_ms, batch)
};

/// Cold starts of replicas from one source, in seconds. Counts replicas that
/// placement decided on and that became ready.
struct start_summary {
  std::string source; ///< see replica_row
  uint64_t count = 0;
  double fetch_mean = 0;      ///< until the bytes arrived in the host's memory
  double until_load_mean = 0; ///< from the decision to the begin of the load
  double load_mean = 0;       ///< from the begin of the load until the replica
                              ///< is ready
  /// From the decision until the replica is ready.
  double mean = 0, p50 = 0, p99 = 0, max = 0;
  MILLRACE_FIELDS(start_summary, source, count, fetch_mean, until_load_mean,
                  load_mean, mean, p50, p99, max)
};

/// Device-seconds of one kind during the workload.
struct device_summary {
  std::string kind;
  uint64_t devices = 0;
  double available_seconds = 0; ///< while the host of the device ran
  double reserved_seconds = 0;  ///< while at least one replica held the device
  double busy_seconds = 0;      ///< while at least one batch ran
  double utilisation = 0;       ///< busy_seconds / available_seconds
  MILLRACE_FIELDS(device_summary, kind, devices, available_seconds,
                  reserved_seconds, busy_seconds, utilisation)
};

/// One direction of a link during the workload.
struct link_summary {
  std::string link;       ///< "HOST up", to the switch, or "HOST down"
  double bytes = 0;       ///< of completely sent messages
  double utilisation = 0; ///< bytes / capacity of the link over the workload
  MILLRACE_FIELDS(link_summary, link, bytes, utilisation)
};

/// The summary of a run.
struct run_summary {
  std::string scenario;
  uint64_t seed = 0;
  double seconds = 0;     ///< virtual time of the workload
  double end_seconds = 0; ///< of the last answer, or of the workload
  bool all_ok = false;    ///< every request was answered ok
  served_summary all;
  std::vector<served_summary> models;
  std::map<std::string, uint64_t> cold_starts; ///< by source of the bytes
  std::vector<start_summary> starts;           ///< by source
  uint64_t failed_starts = 0;
  std::vector<std::string> never_ready; ///< models without any replica
  double replica_seconds = 0;           ///< ready, within the workload
  /// From the decision (without one, from the begin of the load) to the end of
  /// the replica.
  double reserved_replica_seconds = 0;
  double busy_replica_seconds = 0;     ///< while running a batch
  std::vector<device_summary> devices; ///< by kind
  double device_seconds = 0;           ///< of all devices, used or not
  double utilisation = 0;              ///< busy part of device_seconds
  std::vector<link_summary> links;     ///< the ten busiest links, busiest first
  /// Of all hosts: machines from request to release, other hosts to the end of
  /// the run. Boots and the time after a kill are included.
  double cost = 0;
  double cost_used = 0;         ///< part of the cost with at least one replica
                                ///< on the host
  std::vector<pool_bill> pools; ///< by pool
  uint64_t store_bytes = 0;     ///< sent by the object store
  std::map<std::string, uint64_t> faults;
  uint64_t errors = 0;   ///< events at which a person must act
  uint64_t messages = 0; ///< handled by actors
  uint64_t actions = 0;  ///< of network, devices, disks, clients
  MILLRACE_FIELDS(run_summary, scenario, seed, seconds, end_seconds, all_ok,
                  all, models, cold_starts, starts, failed_starts, never_ready,
                  replica_seconds, reserved_replica_seconds,
                  busy_replica_seconds, devices, device_seconds, utilisation,
                  links, cost, cost_used, pools, store_bytes, faults, errors,
                  messages, actions)
};

/// The kind of each device, by NODE/DEVICE.
std::map<std::string, std::string> device_kinds(const loaded_scenario& what);

/// The latency up to which a request of this part of the workload is in time.
microseconds slo_of(const loaded_scenario& what, const record& run,
                    const request_row& row);

/// The busiest links with any traffic, at most ten.
std::vector<link_summary> busiest_links(const std::vector<link_use>& all);

run_summary summarise(const loaded_scenario& what, uint64_t seed,
                      const record& run);

} // namespace millrace::simulator

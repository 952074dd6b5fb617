// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/device/sharing.hpp"
#include "runtime/fields.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// Requests the load: from a monitor to executors and replicas, from any actor
/// to a monitor.
struct get_load {
  MILLRACE_FIELDS(get_load)
};

/// Counters of an executor since its start, and current values.
struct device_load {
  std::string device;
  uint32_t lanes = 1;
  microseconds busy{0}; ///< over all lanes
  uint64_t batches = 0;
  uint64_t running = 0;
  uint64_t waiting = 0; ///< batches for a lane
  uint64_t memory = 0;  ///< bytes held by replicas
  uint64_t loads = 0;   ///< started
  /// Time for which a running batch has been useless: no request needs it.
  microseconds overdue{0};
  device_sharing sharing{}; ///< in force
  MILLRACE_FIELDS(device_load, device, lanes, busy, batches, running, waiting,
                  memory, loads, overdue, sharing)
};

/// Number, sum and sum of squares of durations, in seconds.
struct moments {
  uint64_t count = 0;
  double sum = 0;
  double squares = 0;
  MILLRACE_FIELDS(moments, count, sum, squares)

  void add(nanoseconds duration) {
    auto s = to_seconds(duration);
    ++count;
    sum += s;
    squares += s * s;
  }
};

/// Counters of a replica since its start, and current values.
struct replica_load {
  std::string replica;
  microseconds busy{0}; ///< executing its batches
  uint64_t batches = 0;
  uint64_t requests = 0;
  uint64_t running = 0; ///< batches that it has
  moments gaps{};       ///< between arrivals of batches
  moments waits{}; ///< of batches before they run, including the stage before
  moments runs{};  ///< of batches
  moments sends{}; ///< to the next stage and back, sampled once per second
  MILLRACE_FIELDS(replica_load, replica, busy, batches, requests, running, gaps,
                  waits, runs, sends)
};

/// Usage of a device over the last second.
struct device_usage {
  std::string device;
  double busy = 0; ///< fraction of its lanes' time, 0 to 1
  double batches_per_second = 0;
  uint64_t running = 0;
  uint64_t waiting = 0;
  uint64_t memory = 0;
  microseconds overdue{0}; ///< as in device_load
  // Of a GPU, by all processes; 0: not known.
  double gpu_busy = 0; ///< fraction of the last second in which a kernel ran
  uint64_t gpu_memory = 0; ///< bytes in use
  uint64_t gpu_clock = 0;  ///< MHz
  double gpu_watts = 0;
  MILLRACE_FIELDS(device_usage, device, busy, batches_per_second, running,
                  waiting, memory, overdue, gpu_busy, gpu_memory, gpu_clock,
                  gpu_watts)
};

/// QUART's statistics of a stage (section 5.1), for one replica.
struct replica_usage {
  std::string replica;
  double busy = 0; ///< batches executing on average
  double requests_per_second = 0;
  double batch = 0; ///< requests per batch, on average
  uint64_t running = 0;
  double arrivals = 0;   ///< batches a second: lambda
  double arrival_cv = 0; ///< of the times between them
  double queue = 0;      ///< batches that waited, on average
  double waited = 0;     ///< seconds, on average
  double served = 0;     ///< seconds a batch ran, on average: 1 / mu
  double service_cv = 0;
  double sent = 0; ///< seconds to the next stage, on average; 0: not known
  MILLRACE_FIELDS(replica_usage, replica, busy, requests_per_second, batch,
                  running, arrivals, arrival_cv, queue, waited, served,
                  service_cv, sent)
};

/// A monitor's report on its node and host.
struct node_load {
  double host_busy = 0;    ///< fraction of the time of all cores, 0 to 1
  double process_cpus = 0; ///< cores that this process kept busy
  uint64_t resident = 0;   ///< bytes of memory of this process
  uint64_t available = 0;  ///< bytes of the host's memory that are free to use
  uint64_t copied = 0;     ///< bytes of tensors copied since the node's start
  std::vector<device_usage> devices;
  std::vector<replica_usage> replicas;
  MILLRACE_FIELDS(node_load, host_busy, process_cpus, resident, available,
                  copied, devices, replicas)
};

} // namespace millrace

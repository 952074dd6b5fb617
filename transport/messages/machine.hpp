// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Machines of pools: requested while they are needed, billed from the request
/// to the release. No actor handles: policies include this file.

#include <cstdint>
#include <string>
#include <vector>

#include "models/device/device_info.hpp"
#include "runtime/fields.hpp"
#include "runtime/names.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// The life of a machine:
///
///     requested ──▶ booting ◀──▶ ready ──▶ draining ──▶ released
///         │            │                      ▲
///         └────────────┴──────────────────────┘
///
/// requested: the ledger has the request; the source may not have it yet.
/// booting:   the source has the request; the node is not there: it boots, or
///            it was lost. After `patience` of the pool it starts to drain.
/// ready:     the node has joined and takes replicas.
/// draining:  no new replicas; the running ones are replaced elsewhere, then
///            their requests are finished and the node leaves.
/// released:  no longer billed. The next request of the name is a new lease.
enum class machine_condition : uint8_t {
  requested,
  booting,
  ready,
  draining,
  released
};

constexpr auto names_of(machine_condition) {
  return name_table{"requested", "booting", "ready", "draining", "released"};
}

/// A scaling policy to the provider: the number of machines of a pool, booting
/// ones included.
struct machine_count {
  std::string pool;
  uint64_t count = 0;
  MILLRACE_FIELDS(machine_count, pool, count)
};

/// How the machines of a pool are requested and billed.
struct pool_settings {
  double price = 0;
  microseconds boot{30'000'000};
  uint64_t least = 0;
  uint64_t most = 0;
  microseconds idle{60'000'000};
  microseconds patience{10'000'000};
  microseconds drain{30'000'000};
  uint64_t replicas = 1;
  MILLRACE_FIELDS(pool_settings, price, boot, least, most, idle, patience,
                  drain, replicas)
  static constexpr auto notes() {
    return std::array{
      note{"price of one machine per hour, from its request to its release;"
           " 0: as hosts[].price",
           0, 1e6},
      note{"time from the request of a machine to the start of its node", 0,
           86'400},
      note{"minimum number of machines, requested at the start", 0, 100'000},
      note{"maximum number of machines at once; 0: all hosts of the pool", 0,
           100'000},
      note{"the time after which an unneeded machine is released (a policy"
           " that requests machines decides this instead)",
           0, 86'400},
      note{"how long the node of a machine may be missing, beyond the boot time"
           " at first or after a loss; then the machine is released, and"
           " another one requested",
           0.1, 86'400},
      note{"how long the replicas of a machine that is to be released may take"
           " to be replaced elsewhere",
           0, 86'400},
      note{"replicas of a device for which no further machine is requested; 0:"
           " as many as have room by units and memory (a replica waits for a"
           " machine only while no other device has room)",
           0, 10'000}};
  }
};

/// A pool, as policies see it.
struct pool_state {
  pool_settings settings;           ///< most and price are those in force
  std::string type;                 ///< of its machines: the host group
  std::vector<device_info> devices; ///< of each machine
  MILLRACE_FIELDS(pool_state, settings, type, devices)
};

/// A machine, as policies see it. Its node has the same name.
struct machine_state {
  std::string pool;
  machine_condition condition = machine_condition::released;
  MILLRACE_FIELDS(machine_state, pool, condition)
};

/// For people: the machines of all pools, and both bills, as the ledger of the
/// controller has them. Those that were never requested are left out.
struct get_machines {
  MILLRACE_FIELDS(get_machines)
};
struct machine_status {
  std::string machine;
  std::string pool;
  std::string type;
  machine_condition condition = machine_condition::released;
  microseconds since{0}; ///< time in this condition
  uint64_t leases = 0;   ///< number of requests for the machine
  double price = 0;      ///< of an hour
  /// From each request to its release, boot included.
  microseconds reserved{0};
  /// The part with at least one replica on it, as the controller saw it.
  microseconds used{0};
  MILLRACE_FIELDS(machine_status, machine, pool, type, condition, since, leases,
                  price, reserved, used)

  double cost_reserved() const { return to_seconds(reserved) / 3600 * price; }
  double cost_used() const { return to_seconds(used) / 3600 * price; }
};
struct machine_list {
  std::vector<machine_status> machines; ///< by name
  MILLRACE_FIELDS(machine_list, machines)
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "runtime/names.hpp"
#include "runtime/time.hpp"

namespace millrace {

enum class fault_kind : uint8_t {
  kill,      ///< the process ends; restarted after `lasts`, if not 0
  hang,      ///< the process stops, then continues
  slow,      ///< devices and link are `factor` times slower
  partition, ///< no connection to other nodes, except clients and store
  one_way,   ///< the node's messages are lost, those to it arrive
  loss,      ///< a part of its packets is lost
  delay,     ///< each of its messages is late
  device,    ///< executions on its devices fail
  load,      ///< loads on its devices fail
  store,     ///< fetches from the object store fail
  disk,      ///< writes to its disk fail
  wipe,      ///< killed and restarted with an empty disk
  crash,     ///< one of its actors ends during a handler
  process,   ///< executions on its devices crash the model's process
  gpu,       ///< its devices lose their content and can run nothing
};

constexpr auto names_of(fault_kind) {
  return name_table{"kill", "hang",  "slow",   "partition", "one_way",
                    "loss", "delay", "device", "load",      "store",
                    "disk", "wipe",  "crash",  "process",   "gpu"};
}

/// Whether only a node with devices can have such a fault.
constexpr bool needs_devices(fault_kind kind) {
  return kind == fault_kind::device || kind == fault_kind::load
         || kind == fault_kind::store || kind == fault_kind::process
         || kind == fault_kind::gpu;
}

/// A fault of a scenario.
struct fault_spec {
  fault_kind kind = fault_kind::kill;
  std::vector<std::string> nodes;
  std::optional<microseconds> at;
  microseconds every{0};
  microseconds each{0};
  microseconds lasts{0};
  std::optional<double> part;
  double factor = 10;
  microseconds by{20'000};
  std::string actor;
  MILLRACE_FIELDS(fault_spec, kind, nodes, at, every, each, lasts, part, factor,
                  by, actor)
  static constexpr auto notes() {
    return std::array{
      note{"kind of the fault"},
      note{"nodes with the fault, by name or host group. in-use:MODEL draws a"
           " node with a ready replica of the model; in-use:MODEL/N, of a stage"
           " that begins at layer N. Default: all workers with 'at', any node"
           " with 'every' and 'each'"},
      note{"time of the fault"},
      note{"mean time between faults at random times, instead of 'at'; each"
           " fault hits one of the nodes",
           0, 3.2e7},
      note{"fixed time between faults, instead of 'at'; the first fault comes"
           " after one period. Each fault hits one of the nodes",
           0, 3.2e7},
      note{"length of the fault; 0: permanent, but 1 s for a hang, wipe or"
           " device fault",
           0, 3.2e7},
      note{"fraction of packets, executions, loads, fetches or writes that"
           " fail; default: 0.01 for packets, otherwise 1",
           0, 1},
      note{"factor by which the node is slower", 1, 1e6},
      note{"delay of each message", 0, 60},
      note{"kind crash: actor to crash, such as gateway, or executor/gpu.0 for"
           " one of several; default: any but the supervisor"}};
  }
};

/// A place of a fault: "in-use:MODEL" or "in-use:MODEL/N".
struct place_in_use {
  std::string model;
  std::optional<uint64_t> first_layer; ///< first layer of the replica
};

/// Parses such a place; nullopt for a name, or if N is not a number.
std::optional<place_in_use> parse_place_in_use(std::string_view place);

/// Settings that exploring draws for each seed.
enum class variation : uint8_t {
  link,     ///< heartbeats and timeouts
  network,  ///< latency, jitter, cost of messages
  limits,   ///< tight limits of gateways and queues that admit usual requests
  policies, ///< batches, delays, drops, dispatch
  lanes,    ///< number of lanes of devices
  disks,    ///< time of a disk sync
  parts,    ///< how models of several layers are split, and the overlap
  sharing,  ///< sharing of devices: mode, batches at once, batches of a replica
};

constexpr auto names_of(variation) {
  return name_table{"link",  "network", "limits", "policies",
                    "lanes", "disks",   "parts",  "sharing"};
}

/// How seeds of a scenario are explored.
struct exploration_config {
  double storm = 0.2;
  double settled = 0.85;
  uint64_t faults = 12;
  std::vector<variation> vary{variation::link, variation::network};
  std::vector<std::string> probes;
  uint64_t probes_within = 2000;
  MILLRACE_FIELDS(exploration_config, storm, settled, faults, vary, probes,
                  probes_within)
  static constexpr auto notes() {
    return std::array{
      note{"fraction of the run, from its start, in which faults occur; then"
           " all faults end",
           0.01, 1},
      note{"fraction of the run after which the cluster must work again", 0.01,
           1},
      note{"limit of faults in one run", 1, 1000},
      note{"settings drawn for each seed, regardless of the scenario"},
      note{"log events that must occur in at least one run, such as"
           " router.replica_lost"},
      note{"number of explored seeds from which `probes` must occur", 1, 1e9}};
  }
};

} // namespace millrace

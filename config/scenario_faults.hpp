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
  kill,      ///< the process is gone; started again after `lasts`, if not 0
  hang,      ///< stopped, then goes on
  slow,      ///< its devices and link are `factor` times slower
  partition, ///< cut off from all other nodes, not from clients or the store
  one_way,   ///< nothing it says gets out
  loss,      ///< part of its packets
  delay,     ///< of each of its messages
  device,    ///< executions on it fail
  load,      ///< loads onto its devices fail
  store,     ///< fetches from the object store fail
  disk,      ///< writes to its disk fail
  wipe,      ///< killed, and started again with an empty disk
  crash,     ///< one of its actors ends in the middle of what it does
  process,   ///< executions on its devices end their model's process
  gpu,       ///< its devices lose what they have, and can run nothing
};

constexpr auto names_of(fault_kind) {
  return name_table{"kill", "hang",  "slow",   "partition", "one_way",
                    "loss", "delay", "device", "load",      "store",
                    "disk", "wipe",  "crash",  "process",   "gpu"};
}

/// Whether only who has devices has such a fault.
constexpr bool needs_devices(fault_kind x) {
  return x == fault_kind::device || x == fault_kind::load
         || x == fault_kind::store || x == fault_kind::process
         || x == fault_kind::gpu;
}

/// Something that goes wrong.
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
      note{"what happens"},
      note{"to which nodes, by name or host group, or in-use:MODEL: a node that"
           " has a ready replica of the model then, drawn by chance;"
           " in-use:MODEL/N: of a part that begins at layer N; default: with"
           " 'at' all workers, with 'every' and 'each' any"},
      note{"when"},
      note{"or how often on average, each time to one of the nodes", 0, 3.2e7},
      note{"or the period between two, the first one after a period, each time"
           " to one of the nodes",
           0, 3.2e7},
      note{"how long; 0: for good, and a hang, wipe or device fault 1 s", 0,
           3.2e7},
      note{
        "of the packets, executions, loads, fetches or writes: how much fails;"
        " default: of packets 0.01, else all",
        0, 1},
      note{"how many times slower", 1, 1e6},
      note{"how much later each message comes", 0, 60},
      note{"of a crash: which, such as gateway, or executor/gpu.0 for one of"
           " several; default: any but the supervisor"}};
  }
};

/// A place "in-use:MODEL" or "in-use:MODEL/N" of a fault.
struct place_in_use {
  std::string model;
  std::optional<uint64_t> first_layer; ///< of the replica
};

/// Nothing: the place is a name, or N is not a number.
std::optional<place_in_use> parse_place_in_use(std::string_view place);

/// What exploring draws anew for each seed.
enum class variation : uint8_t {
  link,     ///< beats and timeouts
  network,  ///< latency, jitter, what messages cost
  limits,   ///< of gateways and queues: tight, with room for usual requests
  policies, ///< batches, delays, drops, dispatch
  lanes,    ///< of devices
  disks,    ///< what a sync takes
  parts,    ///< that models of several layers are cut into, and their overlap
  sharing,  ///< of devices: mode, batches at once, batches of a replica
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
      note{"faults fall in this part of the run, from the start; then all is"
           " healed",
           0.01, 1},
      note{"from this part of the run on the cluster has to work again", 0.01,
           1},
      note{"in one run, at most", 1, 1000},
      note{"what is drawn anew for each seed, whatever the scenario says"},
      note{"what has to happen in some run, by its name in the log, such as"
           " router.replica_lost"},
      note{"if so many seeds are explored", 1, 1e9}};
  }
};

} // namespace millrace

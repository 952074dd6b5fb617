// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/config.hpp"

namespace millrace {

/// Devices of one kind in a host.
struct device_group {
  std::string kind = "emulated";
  uint64_t count = 1;
  uint32_t lanes = 1;
  byte_count memory;
  uint64_t units = 0;
  emulation emulate;
  device_sharing sharing;
  MILLRACE_FIELDS(device_group, kind, count, lanes, memory, units, emulate,
                  sharing)
  static constexpr auto notes() {
    return std::array{
      note{"what profiles and the catalogue call it"},
      note{"so many of them", 1, 64},
      note{"batches that run at once on each", 1, 256},
      note{"what replicas may take on each in all; 0: what the catalogue says"},
      note{"units that replicas may take on each, as models[].units counts"
           " them; 0: not limited",
           0, 1e9},
      note{"how it takes its time where no profile tells"},
      note{"which batches run at once on each"}};
  }
};

/// A host's disk, as models use it.
struct disk_group {
  byte_count keeps;
  bandwidth speed;
  MILLRACE_FIELDS(disk_group, keeps, speed)
  static constexpr auto notes() {
    return std::array{
      note{"bytes of models that came from elsewhere, which are found there"
           " again after a restart; 0: none are kept"},
      note{"bytes that it reads or writes in a second, which loads at one time"
           " share; 0: that takes no time",
           0}};
  }
};

/// Hosts that are alike; each runs one node.
struct host_group {
  std::string name;
  uint64_t count = 0;
  std::vector<node_role> roles;
  uint64_t rack_size = 0;
  std::string rack;
  byte_count memory;
  eviction evict = eviction::cost;
  disk_group disk;
  std::vector<device_group> devices;
  double price = 0;
  std::string pool;
  MILLRACE_FIELDS(host_group, name, count, roles, rack_size, rack, memory,
                  evict, disk, devices, price, pool)
  static constexpr auto notes() {
    return std::array{
      note{"of the node; with a count, NAME-1, NAME-2 and so on"},
      note{"so many hosts; 0: one, and its name has no number", 0, 100'000},
      note{"what their nodes do"},
      note{"hosts that share a rack, named RACK-1 and so on; 0: all of them", 0,
           100'000},
      note{"name of their rack, or racks; default: none, on the spine itself"},
      note{"bytes of memory that models may take on each; 0: not limited"},
      note{"which models leave that memory, as nodes.NAME.cache.evict"},
      note{"their disks"},
      note{"what their nodes compute with"},
      note{"an hour of one host, in whatever currency; 0: what the catalogue"
           " says of its devices",
           0, 1e6},
      note{"the pool that they are machines of: they run, and are billed, only"
           " while they are requested; default: none, they run from the"
           " start"}};
  }
};

/// What a kind of device is like.
struct device_kind {
  byte_count memory;
  double price = 0;
  std::string like;
  double times = 1;
  MILLRACE_FIELDS(device_kind, memory, price, like, times)
  static constexpr auto notes() {
    return std::array{
      note{"what replicas may take in all; 0: not limited"},
      note{"an hour of the machine around it", 0, 1e6},
      note{"the kind whose times it has, where a model has none for it"},
      note{"and what these are multiplied by", 1e-6, 1e6}};
  }
};

/// Kinds of devices, by name.
struct device_catalogue {
  std::map<std::string, device_kind> kinds;
  MILLRACE_FIELDS(device_catalogue, kinds)
  static constexpr auto notes() {
    return std::array{note{"the kinds there are, by name"}};
  }
};

} // namespace millrace

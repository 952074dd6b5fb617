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
      note{"kind of the devices, as in profiles and the catalogue"},
      note{"number of devices", 1, 64},
      note{"number of batches that run at once on each device", 1, 256},
      note{"memory that all replicas together may use on each device; 0: as in"
           " the catalogue"},
      note{"units that all replicas together may use on each device, as"
           " counted by models[].units; 0: no limit",
           0, 1e9},
      note{"times of a device without a profile"},
      note{"which batches run at once on each device"}};
  }
};

/// A host's disk cache for models.
struct disk_group {
  byte_count keeps;
  bandwidth speed;
  MILLRACE_FIELDS(disk_group, keeps, speed)
  static constexpr auto notes() {
    return std::array{
      note{"size of the disk cache, for models from other hosts and object"
           " stores; survives restarts. 0: no disk cache"},
      note{"bytes per second that the disk reads or writes, shared by"
           " simultaneous loads; 0: disk access takes no time",
           0}};
  }
};

/// A group of equal hosts; each host runs one node.
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
      note{
        "name of the node; with a count, nodes are NAME-1, NAME-2 and so on"},
      note{"number of hosts; 0: one host, with a name without number", 0,
           100'000},
      note{"roles of the nodes"},
      note{"number of hosts that share a rack, named RACK-1 and so on; 0: all"
           " hosts",
           0, 100'000},
      note{"name of the rack, or racks; default: none, the hosts are connected"
           " to the spine"},
      note{"memory of each host for models; 0: no limit"},
      note{
        "which models are evicted from this memory, as nodes.NAME.cache.evict"},
      note{"disks of the hosts"},
      note{"devices of each host"},
      note{"price of one host for an hour, in any currency; 0: the catalogue's"
           " price of its devices",
           0, 1e6},
      note{"pool of these hosts, which then run, and cost, only while they are"
           " requested. Default: none, the hosts run from the start"}};
  }
};

/// Properties of a kind of device.
struct device_kind {
  byte_count memory;
  double price = 0;
  std::string like;
  double times = 1;
  MILLRACE_FIELDS(device_kind, memory, price, like, times)
  static constexpr auto notes() {
    return std::array{
      note{"memory that all replicas together may use; 0: no limit"},
      note{"price of a machine with this device for an hour", 0, 1e6},
      note{"kind with the same times, used for models without times for this"
           " kind"},
      note{"factor on the times of `like`", 1e-6, 1e6}};
  }
};

/// Kinds of devices, by name.
struct device_catalogue {
  std::map<std::string, device_kind> kinds;
  MILLRACE_FIELDS(device_catalogue, kinds)
  static constexpr auto notes() {
    return std::array{note{"all kinds, by name"}};
  }
};

} // namespace millrace

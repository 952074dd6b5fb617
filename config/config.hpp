// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/policies/evict/eviction.hpp"
#include "models/device/emulated_device.hpp"
#include "runtime/log.hpp"
#include "transport/messages/chain.hpp"
#include "transport/messages/demand.hpp"
#include "transport/messages/machine.hpp"
#include "transport/messages/model.hpp"
#include "transport/objects/settings.hpp"
#include "transport/peers.hpp"

namespace millrace {

/// Roles of a process; see the table of roles in README.md.
enum class node_role : uint8_t { gateway, controller, worker };

constexpr auto names_of(node_role) {
  return name_table{"gateway", "controller", "worker"};
}

enum class device_type : uint8_t { cpu, emulated, cuda };

constexpr auto names_of(device_type) {
  return name_table{"cpu", "emulated", "cuda"};
}

/// Options of a GPU.
struct cuda_config {
  uint32_t gpu = 0;
  gpu_sharing sharing = gpu_sharing::time;
  bool streaming = true;
  bool graphs = true;
  gpu_parameters parameters = gpu_parameters::device;
  bool pipelined = false;
  MILLRACE_FIELDS(cuda_config, gpu, sharing, streaming, graphs, parameters,
                  pipelined)
  static constexpr auto notes() {
    return std::array{
      note{"index of the GPU on the host, in bus order as in nvidia-smi, among"
           " the GPUs in CUDA_VISIBLE_DEVICES",
           0, 63},
      note{
        "how replicas share the GPU. time: one batch after the other. streams:"
        " in one process, as many batches at a time as fit. partitions: in one"
        " process, each replica on its own share of multiprocessors. mps: one"
        " process per replica, each with a share (needs a running NVIDIA MPS)"},
      note{"whether inputs of a batch are copied while another batch computes"
           " (needs two lanes)"},
      note{"whether batches of a repeated size are recorded as a CUDA graph"
           " and replayed"},
      note{"place of models' parameters. device: in the GPU's memory. host: in"
           " host memory, for models that are rarely used or larger than the"
           " GPU's memory. Each pass then reads the parameters over the bus,"
           " and each replica has its own page-locked copy"},
      note{
        "whether a replica's first pass begins while its parameters are still"
        " being loaded; each layer waits for its own parameters. The replica is"
        " ready earlier by the set-up and computation of a first pass. Not for"
        " isolation: thread, nor for isolation: device with sharing: time."
        " Loads of model completion in idle time are not pipelined"}};
  }
};

struct device_config {
  device_type type = device_type::cpu;
  std::string id;
  std::string kind;
  uint32_t lanes = 0;
  byte_count memory;
  uint64_t units = 0;
  isolation_mode isolation = isolation_mode::automatic;
  byte_count process_memory{uint64_t{4} << 30};
  microseconds load_limit{60'000'000};
  microseconds run_limit{600'000'000};
  double pace = 1;
  emulation emulate;
  cuda_config cuda;
  device_sharing sharing;
  MILLRACE_FIELDS(device_config, type, id, kind, lanes, memory, units,
                  isolation, process_memory, load_limit, run_limit, pace,
                  emulate, cuda, sharing)
  static constexpr auto notes() {
    return std::array{
      note{"kind of the device"},
      note{"name of the device on the node; default: the type and a number,"
           " such as cpu0"},
      note{"name of the device's kind in profiles; default: the type"},
      note{
        "number of batches in progress at once, one thread each; 0: one, on a"
        " GPU three. On a GPU one batch computes while the others are copied",
        0, 256},
      note{"memory that all replicas together may use; 0: no limit. On a GPU 0"
           " means the GPU's memory, unless parameters stay on the host"},
      note{"units that all replicas together may use, as counted by"
           " models[].units: cores of a host, percent of a GPU; 0: no limit",
           0, 1e9},
      note{"where models run. thread: in threads of the node. process: each"
           " replica in its own confined process. device: all replicas of the"
           " device in one confined process, which protects the node but not"
           " the models from each other. auto, on a cpu: trusted models as"
           " thread, others as process. auto, on a GPU: as process; as device"
           " if cuda.sharing is streams or partitions"},
      note{"memory that a confined process may use besides its weights. With "
           "isolation: device, the limit covers all memory of the process",
           64 << 20, 1e15},
      note{"longest time of a model's load in a confined process. A load in"
           " idle time, as in model completion, may take twenty times as long",
           1, 3'600},
      note{
        "longest time of a batch in a confined process. The process is then"
        " ended, and the batch runs once more elsewhere. With policy.drop late"
        " the limit is the batch's last deadline. For several requests the"
        " limit is half of the time to their first deadline, so that each can"
        " then run alone. These two limits apply only to a batch that takes"
        " four times as long as usual for its size, or is later than a load"
        " takes. A cancelled batch is ended after both of these times",
        0.001, 86'400},
      note{"type cpu: factor by which the device is slower than the host's"
           " processors. The device computes, and its lane then waits for the"
           " rest of the time",
           1, 1000},
      note{"times of an emulated device"},
      note{"options of type cuda: which GPU, and how it is used"},
      note{"which batches run on the device at once"}};
  }

  /// The configured number of lanes, or the default of the type.
  uint32_t lanes_or_default() const {
    constexpr uint32_t of_gpu = 3;
    if (lanes > 0)
      return lanes;
    return type == device_type::cuda ? of_gpu : 1;
  }
};

/// Limits of a worker's model cache.
struct cache_config {
  byte_count memory;
  byte_count disk;
  eviction evict = eviction::cost;
  MILLRACE_FIELDS(cache_config, memory, disk, evict)
  static constexpr auto notes() {
    return std::array{
      note{"limit of models in memory, in bytes; 0: all of the host's memory"
           " but 15 %"},
      note{"limit of models in the disk cache below `data`, in bytes. The disk"
           " cache stores models from other hosts and object stores, and"
           " survives restarts; 0: no disk cache"},
      note{"which content is evicted. cost: content that is fast to get again"
           " for its size and was unused for long. lru: the least recently used"
           " content. unused: as lru; in addition, content without a replica"
           " leaves memory at once"}};
  }
};

struct node_config {
  std::vector<node_role> roles;
  std::string peers = "tcp://127.0.0.1:*";
  std::string advertise;
  std::string bulk;
  std::string clients;
  std::map<std::string, std::string> tenants;
  std::string operators;
  std::string http;
  std::string data;
  std::string models;
  std::string rack;
  std::string host;
  bandwidth network;
  microseconds drain_timeout{30'000'000};
  cache_config cache;
  std::vector<device_config> devices;
  MILLRACE_FIELDS(node_config, roles, peers, advertise, bulk, clients, tenants,
                  operators, http, data, models, rack, host, network,
                  drain_timeout, cache, devices)
  static constexpr auto notes() {
    return std::array{
      note{"roles of the process"},
      note{"address on which other nodes connect; port *: any free port"},
      note{"address that the node sends to others; default: peers, as bound"},
      note{"address from which other workers fetch models; carries no"
           " messages. Default: as peers, at any free port"},
      note{"address for clients; a gateway needs this or `tenants`"},
      note{"address for the clients of each tenant, by tenant name. The tenant"
           " default uses `clients`"},
      note{"address for actor-shell; default: none"},
      note{"HOST:PORT of /metrics, /livez and /readyz; default: none, and the"
           " node records no metrics"},
      note{"directory for durable data; default: data/NAME"},
      note{"directory of bundles; default: bundles"},
      note{"rack of the host, for placement"},
      note{"name of the host, the same for all nodes of one host; default: the"
           " system's host name"},
      note{"bandwidth of the host's network link, for planning; 0: unknown", 0},
      note{"longest time after SIGTERM in which the node finishes its requests"
           " before it ends",
           0, 3600},
      note{"limits of the node's model cache"},
      note{"devices of a worker; default: one cpu"}};
  }
};

struct log_config {
  log_level level = log_level::info;
  MILLRACE_FIELDS(log_config, level)
  static constexpr auto notes() {
    return std::array{note{"lowest level that is logged"}};
  }
};

struct link_config {
  microseconds beat{100'000};
  microseconds timeout{400'000};
  uint64_t max_nodes = 4096;
  MILLRACE_FIELDS(link_config, beat, timeout, max_nodes)
  static constexpr auto notes() {
    return std::array{note{"period of heartbeats between nodes", 0.001, 10},
                      note{"time without a heartbeat after which a node counts"
                           " as lost; at least two periods",
                           0.002, 60},
                      note{"limit of other nodes that a node remembers; the"
                           " ones lost longest ago are forgotten first",
                           2, 1e5}};
  }
};

struct gateway_config {
  uint64_t max_requests = 65'536;
  byte_count max_bytes{512u << 20};
  byte_count max_client_bytes{256u << 20};
  byte_count max_unread_bytes{512u << 20};
  byte_count max_client_unread_bytes{64u << 20};
  uint64_t max_models = 1024;
  static constexpr double least_bytes = 65'536;
  MILLRACE_FIELDS(gateway_config, max_requests, max_bytes, max_client_bytes,
                  max_unread_bytes, max_client_unread_bytes, max_models)
  static constexpr auto notes() {
    return std::array{
      note{"limit of requests in progress; further requests get the answer"
           " overloaded",
           1, 1e9},
      note{"limit of the inputs of these requests, in bytes", least_bytes},
      note{"limit of the inputs of one connection, in bytes. A frame of more"
           " than twice this limit, and more than 4 MiB, closes the connection",
           least_bytes},
      note{"limit of answers that clients have not read, in bytes; further"
           " answers are dropped",
           least_bytes},
      note{"the same limit for one connection, in bytes", least_bytes},
      note{"limit of model versions with a router; the router of an idle"
           " version is removed for a new one",
           1, 1e6}};
  }
};

struct monitor_config {
  microseconds period{1'000'000};
  MILLRACE_FIELDS(monitor_config, period)
  static constexpr auto notes() {
    return std::array{note{"period in which each node samples the load of its"
                           " devices and replicas; 0: never",
                           0, 3600}};
  }
};

/// Options of model transfers between workers.
struct bulk_config {
  bool encrypt = true;
  bandwidth rate;
  microseconds patience{500'000};
  bulk_topology topology = bulk_topology::chain;
  MILLRACE_FIELDS(bulk_config, encrypt, rate, patience, topology)
  static constexpr auto notes() {
    return std::array{
      note{"whether model transfers are encrypted, if `keys` is set. Without"
           " encryption, an observer on the network can read models. An"
           " observer can neither change nor request a model: content is"
           " verified, and a request needs a secret from the controller"},
      note{"limit of the bandwidth with which a worker sends models, such as"
           " 10Gbit/s or 1GB/s; 0: no limit",
           0},
      note{"time after which a receiver without progress no longer delays the"
           " receivers behind it",
           0.05, 60},
      note{"source of each transfer. chain: the host before in the chain."
           " unicast: hosts with the whole model (baseline). stores: the object"
           " stores that have the model (baseline)"}};
  }
};

/// Hosts of a scenario that run only while they are requested.
struct pool_config {
  pool_settings settings;            ///< with the effective price and maximum
  std::string type;                  ///< name of the host group
  std::vector<std::string> machines; ///< names of nodes of the config
};

/// The config of a cluster: one file for all nodes.
struct cluster_config {
  std::string cluster = "millrace";
  std::string preset;
  std::string keys;
  std::vector<std::string> seeds;
  std::map<std::string, node_config> nodes;
  std::vector<model_settings> models;
  link_config link;
  gateway_config gateway;
  bulk_config bulk;
  std::map<std::string, object_store_config> object_stores;
  std::map<std::string, scope_settings> scopes;
  placement_settings placement;
  selection_settings selection;
  demand_settings demand;
  monitor_config monitor;
  std::string profiles;
  bool known_profiles = false;
  log_config log;
  /// Durations of decisions, by name and problem size. Only simulations use
  /// them.
  std::map<std::string, curve> decision_seconds;
  /// Pools by name; only in simulations.
  std::map<std::string, pool_config> pools;

  /// The pool with this node as a machine; null for a node that runs from the
  /// start.
  const pool_config* pool_of(const std::string& node) const;
  MILLRACE_FIELDS(cluster_config, cluster, preset, keys, seeds, nodes, models,
                  link, gateway, bulk, object_stores, scopes, placement,
                  selection, demand, monitor, profiles, known_profiles, log)
  static constexpr auto notes() {
    return std::array{
      note{"name of the cluster; messages from nodes of another cluster are"
           " ignored"},
      note{"preset: the options of a published system, used where this file"
           " sets none. One of bl, gpu-faas, flashpoint, or a file in the"
           " format of config/policies"},
      note{"folder of keys made by `millrace keys`: the nodes, clients and "
           "operators that may connect, with their roles; default: none, so "
           "only this host can connect"},
      note{
        "addresses (`peers`) of the nodes to which a new node connects first"},
      note{"all nodes of the cluster, by name; each process runs one node"},
      note{"models served from the start; actor-shell can change them later"},
      note{"how nodes detect the failure of other nodes"},
      note{"limits of a gateway"},
      note{"how workers transfer models to each other"},
      note{"object stores by name: sources of models that no worker has"},
      note{"how models are scaled together, by scope: application/NAME,"
           " pool/NAME, cluster; model/NAME for a single model"},
      note{"how replicas are placed on devices"},
      note{"how the variant for a request to an application is selected"},
      note{"how gateways report demand"},
      note{"how nodes are monitored"},
      note{"file with measured times of models, used by emulated devices;"
           " default: none"},
      note{
        "whether controllers use these times from the start, as if measured"},
      note{"options of the log on standard error"}};
  }
};

/// Reads and checks a config. Relative directories are relative to the file's
/// folder. Each override, "link.beat=50ms", replaces a value of the file.
/// Errors: bad_config with file, line, key, and the found and expected value.
result<cluster_config>
load_config(const std::string& path,
            const std::vector<std::string>& overrides = {});

/// Parses a config from a text; errors name the text by `file`.
result<cluster_config>
parse_config(const std::string& text, const std::string& file,
             const std::vector<std::string>& overrides = {});

/// The addresses for clients; the position of a tenant in this list is the
/// number of its endpoint.
std::vector<tenant_address> clients_of(const node_config& node);

/// The node with this address as `peers` or `advertise`; nullopt when no node
/// of the config has the address.
std::optional<std::string> node_at(const cluster_config& config,
                                   const std::string& address);

/// Prints a config as YAML; options with their default value are omitted.
std::string print_config(const cluster_config& config);

/// A Markdown table of all options: name, type, default, meaning with limits.
std::string config_reference();

/// The node that a process runs: the named one, or the only node of the config.
/// Errors: bad_config, with the names of the nodes.
result<std::string> choose_node(const cluster_config& config,
                                const std::string& wanted);

} // namespace millrace

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

/// What a process does; see the table of roles in README.md.
enum class node_role : uint8_t { gateway, controller, worker };

constexpr auto names_of(node_role) {
  return name_table{"gateway", "controller", "worker"};
}

enum class device_type : uint8_t { cpu, emulated, cuda };

constexpr auto names_of(device_type) {
  return name_table{"cpu", "emulated", "cuda"};
}

/// How a GPU is used.
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
      note{
        "which of the host's, by the bus, as nvidia-smi counts them, of those"
        " that CUDA_VISIBLE_DEVICES leaves",
        0, 63},
      note{"how replicas have it at once: time, one batch after the other;"
           " streams, what fits at a time; partitions, each with a share on"
           " multiprocessors of its own (both in one process); mps, each"
           " process on its share (NVIDIA's MPS has to run)"},
      note{"the inputs of a batch are copied while others compute (needs two"
           " lanes)"},
      note{"batches of a size that came before are recorded as a CUDA graph,"
           " and replayed"},
      note{
        "where models' parameters lie: device, in the GPU's memory; host, for"
        " models larger than that or hardly used: each pass reads them over"
        " the bus, and a replica has its own page-locked copy of them"},
      note{"a replica's first pass begins while its parameters still come, and"
           " each layer waits for its own: it is ready sooner, by what a first"
           " pass has to open and to compute (not in threads of the node, nor"
           " with sharing: time in one process for all; what model completion"
           " loads in idle time waits)"}};
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
      note{"what it is"},
      note{"its name on the node; default: the type and a number, cpu0"},
      note{"what profiles call it; default: the type"},
      note{"batches that are under way at once, a thread each; 0: one, on a GPU"
           " three, of which one computes while others are copied",
           0, 256},
      note{"what replicas may take in all; 0: not limited, on a GPU what it"
           " has, unless parameters stay on the host"},
      note{"units that replicas may take in all, as models[].units counts them:"
           " cores of a host, percent of a GPU; 0: not limited",
           0, 1e9},
      note{"where models run: auto, on a cpu those that are trusted in threads"
           " of the node, all others each in a confined process (on a GPU that"
           " they share within a process, in one); thread; process, each"
           " replica in one; device, all of the device's in one, which keeps"
           " them from the node, not from each other"},
      note{"what a confined process may take beside its weights; with device"
           " what all of it takes",
           64 << 20, 1e15},
      note{"what the load of a model may take in a confined process; when it"
           " fills idle time, as in model completion, twenty times as long",
           1, 3'600},
      note{"what a batch may take in a confined process, whatever its deadline;"
           " then that is ended, and the batch run elsewhere, once. With"
           " policy.drop late already at its last deadline; of several requests"
           " after half of the time to their first, so that each can be run"
           " alone: but not before it takes four times as long as others did of"
           " late, by their size, or is later than a load takes. What nobody"
           " waits for is ended after that long, and longer than a load takes",
           0.001, 86'400},
      note{"cpu: how many times slower than the host's processors the device"
           " is: it computes, and its lane then waits for the rest of the time",
           1, 1000},
      note{"how an emulated device takes its time"},
      note{"which GPU it is, and how it is used"},
      note{"which batches run on it at once"}};
  }

  /// As configured, or the default of its type.
  uint32_t lanes_or_default() const {
    constexpr uint32_t of_gpu = 3;
    if (lanes > 0)
      return lanes;
    return type == device_type::cuda ? of_gpu : 1;
  }
};

/// What a worker keeps of models.
struct cache_config {
  byte_count memory;
  byte_count disk;
  eviction evict = eviction::cost;
  MILLRACE_FIELDS(cache_config, memory, disk, evict)
  static constexpr auto notes() {
    return std::array{
      note{"bytes of memory, at most; 0: as much as leaves 15 % of the host's"},
      note{"bytes of the disk below data, at most, for what other hosts gave,"
           " which is found there again after a restart; 0: nothing is kept"},
      note{
        "what makes room: cost, what is got again soonest for its size and"
        " was not used for long; lru, the content used least recently;"
        " unused, as lru, and a content that no replica uses leaves memory at"
        " once"}};
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
      note{"what this process does"},
      note{"where other nodes connect; a port of * is any free one"},
      note{"the address others are told; default: peers, as bound"},
      note{"where other workers get models from this one, which is no place for"
           " messages; default: as peers, at any free port"},
      note{"where clients connect; gateways need it, or tenants"},
      note{"where the clients of each tenant connect, by its name; clients is"
           " for the tenant default"},
      note{"where actor-shell connects; default: nowhere"},
      note{"HOST:PORT of /metrics, /livez and /readyz; default: none, and"
           " then nothing is counted"},
      note{"directory for what must outlive the process; default: data/NAME"},
      note{"directory of bundles; default: bundles"},
      note{"where the host stands, for placement"},
      note{"the host it runs on, which nodes there share; default: what the"
           " system calls it"},
      note{"what that host's link to others carries, for plans; 0: not known",
           0},
      note{"how long it may finish what it has after SIGTERM; then it ends", 0,
           3600},
      note{"what it keeps of models that other hosts gave it"},
      note{"what a worker computes with; default: one cpu"}};
  }
};

struct log_config {
  log_level level = log_level::info;
  MILLRACE_FIELDS(log_config, level)
  static constexpr auto notes() {
    return std::array{note{"what is logged, from this level on"}};
  }
};

struct link_config {
  microseconds beat{100'000};
  microseconds timeout{400'000};
  uint64_t max_nodes = 4096;
  MILLRACE_FIELDS(link_config, beat, timeout, max_nodes)
  static constexpr auto notes() {
    return std::array{
      note{"how often nodes tell each other that they live", 0.001, 10},
      note{"a node silent for so long is given up; two beats at least", 0.002,
           60},
      note{"nodes a node knows at once; those longest gone make room", 2, 1e5}};
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
      note{"requests held at once; more are answered overloaded", 1, 1e9},
      note{"bytes of their inputs", least_bytes},
      note{"bytes of one connection's inputs; a frame of more than 4 MiB and"
           " twice as many ends it",
           least_bytes},
      note{"bytes of answers that clients have not read; more are dropped",
           least_bytes},
      note{"bytes of answers that one connection has not read", least_bytes},
      note{"model versions it serves at once; those that nobody serves any"
           " more make room for others",
           1, 1e6}};
  }
};

struct monitor_config {
  microseconds period{1'000'000};
  MILLRACE_FIELDS(monitor_config, period)
  static constexpr auto notes() {
    return std::array{
      note{"how often each node looks how busy its devices and replicas are;"
           " 0: never",
           0, 3600}};
  }
};

/// How workers give each other models.
struct bulk_config {
  bool encrypt = true;
  bandwidth rate;
  microseconds patience{500'000};
  bulk_topology topology = bulk_topology::chain;
  MILLRACE_FIELDS(bulk_config, encrypt, rate, patience, topology)
  static constexpr auto notes() {
    return std::array{
      note{
        "whether that is encrypted, where there are keys; else whoever is on"
        " the way can read models, but not change them, nor ask for any: what"
        " comes is verified, and who asks has to know a secret that the"
        " controller gave them"},
      note{
        "what a worker gives to others, at most, as 10Gbit/s or 1GB/s; 0: not"
        " limited",
        0},
      note{"one that gets nothing for so long, although it could, does not hold"
           " up others any more",
           0.05, 60},
      note{"chain: each gets a model from the one before it; unicast: all from"
           " hosts with the whole model, to compare with; stores: all from the"
           " object stores that have the model"}};
  }
};

/// Hosts that run only while they are requested: of a scenario.
struct pool_config {
  pool_settings settings;            ///< with price and most in force
  std::string type;                  ///< the host group
  std::vector<std::string> machines; ///< nodes of the config
};

/// One file for all nodes of a cluster.
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
  /// By name and size of the problem; only a simulation's decisions take time
  /// that they did not really take.
  std::map<std::string, curve> decision_seconds;
  /// By name. Only a simulation has pools.
  std::map<std::string, pool_config> pools;

  /// The pool that a node is a machine of; null: it runs from the start.
  const pool_config* pool_of(const std::string& node) const;
  MILLRACE_FIELDS(cluster_config, cluster, preset, keys, seeds, nodes, models,
                  link, gateway, bulk, object_stores, scopes, placement,
                  selection, demand, monitor, profiles, known_profiles, log)
  static constexpr auto notes() {
    return std::array{
      note{"name; nodes of another cluster are not listened to"},
      note{"options of a system of the literature, which stand where this file"
           " sets none: bl, gpu-faas, flashpoint, or a file like those of"
           " config/policies"},
      note{"folder of keys that `millrace keys` makes: who may connect, and as"
           " what; default: none, and then only this host can"},
      note{"addresses (peers) of nodes to meet first"},
      note{"every node of the cluster; a process is one of them"},
      note{"what is served from the start; actor-shell changes it later"},
      note{"how nodes notice each other's end"},
      note{"what a gateway holds at most"},
      note{"how workers give each other models"},
      note{"by their names: where workers get models that no other has"},
      note{"how models are scaled together, by scope: application/NAME,"
           " pool/NAME, cluster; or model/NAME for one alone"},
      note{"which device each replica goes to"},
      note{"which variant of an application answers a request"},
      note{"how demand is reported"},
      note{"how nodes are watched"},
      note{"file with models' measured times, which emulated devices take;"
           " default: none"},
      note{"whether controllers know these times from the start, as if they had"
           " been measured"},
      note{"the log, on standard error"}};
  }
};

/// Reads and checks a config. Relative directories are taken from the file's.
/// Each override, "link.beat=50ms", replaces a value of the file.
/// Errors: bad_config with file, line and key, what was found and expected.
result<cluster_config>
load_config(const std::string& path,
            const std::vector<std::string>& overrides = {});

/// The same for a text; `file` is how errors name it.
result<cluster_config>
parse_config(const std::string& text, const std::string& file,
             const std::vector<std::string>& overrides = {});

/// Where a node's clients connect: each tenant's place in this list is the
/// number of its endpoint.
std::vector<tenant_address> clients_of(const node_config& x);

/// The node whose peers connect to that address; nothing when the config has
/// none.
std::optional<std::string> node_at(const cluster_config& x,
                                   const std::string& address);

/// A config as its file would say it; what is at its default is left out.
std::string print_config(const cluster_config& x);

/// Every option there is, as Markdown: name, type, default, limits, meaning.
std::string config_reference();

/// The node a process shall be: the one named, or the only one there is.
/// Errors: bad_config, naming the nodes there are.
result<std::string> choose_node(const cluster_config& x,
                                const std::string& wanted);

} // namespace millrace

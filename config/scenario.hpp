// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/scenario_faults.hpp"
#include "config/scenario_hosts.hpp"
#include "config/scenario_workload.hpp"
#include "models/profile_book.hpp"
#include "transport/simulated/network.hpp"

namespace millrace {

/// Where a model is stored when the run begins.
enum class bundle_place : uint8_t { host, store };

constexpr auto names_of(bundle_place) {
  return name_table{"host", "store"};
}

/// A simulated model: sizes and times, without weights.
struct simulated_model {
  std::string application;
  std::optional<double> accuracy;
  byte_count bytes{1u << 20};
  byte_count input{64};
  byte_count output{64};
  uint64_t layers = 1;
  byte_count passed{0};
  std::string profile;
  std::string profile_layers;
  std::map<std::string, std::map<std::string, microseconds>> execute;
  std::map<std::string, microseconds> load;
  std::map<std::string, microseconds> send;
  std::string like;
  double times = 1;
  bundle_place at = bundle_place::host;
  std::vector<std::string> on;
  bool broken = false;
  uint64_t versions = 1;
  bool alike = true;
  /// Bytes of each layer, from parameter_bytes of its profile; empty: all
  /// layers have the same size.
  std::vector<uint64_t> layer_bytes{};
  MILLRACE_FIELDS(simulated_model, application, accuracy, bytes, input, output,
                  layers, passed, profile, profile_layers, execute, load, send,
                  like, times, at, on, broken, versions, alike)
  static constexpr auto notes() {
    return std::array{
      note{"application of which the model is a variant"},
      note{"fraction of correct answers", 0, 1},
      note{"size of the weights"},
      note{"size of one input row", 1, 1e9},
      note{"size of one output row", 1, 1e9},
      note{
        "number of layers into which the model can be split. Layers have equal"
        " sizes, or sizes in the proportion of the profile's parameter_bytes",
        1, 1024},
      note{"size of one row that a layer passes to the next; 0: the size of an"
           " input row",
           0, 1e9},
      note{"file with measured times of the model"},
      note{"which layers of `profile` to use, for a file with several"},
      note{
        "time of a batch, by device kind and number of rows. Values between"
        " two sizes are interpolated linearly; the last segment is extended"},
      note{"time to load the model, by device kind"},
      note{"part of `load` for the copy from the host's memory to the device,"
           " by device kind. Each replica takes this time, also when the host's"
           " process has attached the parameters (see emulate.attach)"},
      note{"model of this file with the same times"},
      note{"factor on the times of `like`", 1e-6, 1e6},
      note{"where the model is at the start. host: on every host's disk. store:"
           " only in the object store, from which hosts fetch it in chains"},
      note{"hosts with the model on disk at the start, instead of all hosts;"
           " the other hosts fetch it from these in chains"},
      note{"whether the model's files are corrupt: nodes list the model, and"
           " detect the damage when they open it"},
      note{"number of versions; the first is the default", 1, 1000},
      note{"whether all versions are equal; false: each version has one layer"
           " more than the version before"}};
  }
};

struct record_config {
  microseconds every{1'000'000};
  bool requests = true;
  bool events = true;
  bool trace = true;
  uint64_t trace_requests = 20'000;
  MILLRACE_FIELDS(record_config, every, requests, events, trace, trace_requests)
  static constexpr auto notes() {
    return std::array{
      note{"interval between two points of the plots over time", 1e-3, 86'400},
      note{"whether to write a table of all requests"},
      note{"whether to write a table of events"},
      note{"whether to write a trace for Perfetto"},
      note{"limit of requests in the trace, from the first on", 1, 1e6}};
  }
};

/// A simulated run: a cluster, its requests, and its faults.
struct scenario {
  std::string name = "scenario";
  std::string preset;
  uint64_t seed = 1;
  microseconds length{60'000'000};
  microseconds warm_up{10'000'000};
  std::string catalogue;
  std::string cluster;
  std::vector<host_group> hosts;
  std::map<std::string, simulated_model> bundles;
  std::vector<model_settings> models;
  link_config link;
  gateway_config gateway;
  std::map<std::string, scope_settings> scopes;
  std::map<std::string, pool_settings> pools;
  placement_settings placement;
  selection_settings selection;
  demand_settings demand;
  monitor_config monitor{microseconds{0}};
  network_settings network;
  byte_count chunk{4u << 20};
  bulk_config bulk;
  bool known_profiles = false;
  microseconds sync{500};
  std::map<std::string, std::map<std::string, microseconds>> decisions;
  std::vector<workload_part> workload;
  std::vector<fault_spec> faults;
  record_config record;
  exploration_config explore;
  MILLRACE_FIELDS(scenario, name, preset, seed, length, warm_up, catalogue,
                  cluster, hosts, bundles, models, link, gateway, scopes, pools,
                  placement, selection, demand, monitor, network, chunk, bulk,
                  known_profiles, sync, decisions, workload, faults, record,
                  explore)
  static constexpr auto notes() {
    return std::array{
      note{"name of the run"},
      note{"preset: the options of a published system, used where this file"
           " sets none. One of bl, gpu-faas, flashpoint, or a file in the"
           " format of config/policies"},
      note{"seed of all random choices"},
      note{"length of the time in which requests arrive", 1e-3, 3.2e7},
      note{"time before the first request, in which the cluster forms and"
           " loads models",
           0, 86'400},
      note{"file with kinds of devices, such as config/catalogue.yaml"},
      note{"config of a cluster that gives nodes, models, link, gateway and"
           " monitor, instead of the options below"},
      note{"groups of hosts"},
      note{"all models by name, with sizes and times"},
      note{"models served from the start"},
      note{"how nodes detect the failure of other nodes"},
      note{"limits of a gateway"},
      note{"how models are scaled together, by scope"},
      note{"pools of machines that run only while they are needed, by name;"
           " see hosts[].pool and scopes.NAME.pool"},
      note{"how replicas are placed on devices"},
      note{"how the variant for a request to an application is selected"},
      note{"how gateways report demand"},
      note{"how nodes are monitored; default: not monitored"},
      note{"the network between the hosts"},
      note{"size of the parts in which files are sent. Larger parts are faster"
           " to simulate, but share links in coarser steps",
           1024, 1e12},
      note{"how hosts transfer models to each other"},
      note{"whether controllers use the times of all models from the start, as"
           " if measured; otherwise they learn the times from requests"},
      note{"time of a disk sync on a host", 0, 60},
      note{"time of a decision, by name and problem size. placement: number of"
           " replicas; scaling: number of models in the scope. Values between"
           " two sizes are interpolated linearly; default: no time (measured by"
           " millrace-bench decisions --yaml)"},
      note{"the requests"},
      note{"the faults"},
      note{"which results of the run are written"},
      note{"how seeds are explored"}};
  }
};

/// A scenario that was read and checked, ready to run.
struct loaded_scenario {
  std::string file; ///< path, for errors
  scenario spec;
  cluster_config cluster; ///< one node for each host
  /// The nodes of each host group.
  std::map<std::string, std::vector<std::string>> groups;
  std::map<std::string, double> price; ///< price of an hour, by node
  /// Speed of the disk, by node; the disk of a node without entry takes no
  /// time.
  std::map<std::string, bandwidth> disk_speed;
  std::shared_ptr<const profile_book> profiles;
};

/// The node with this name, or the nodes of the host group with this name.
std::vector<std::string> nodes_of(const loaded_scenario& scenario,
                                  const std::string& name);

/// Reads and checks a scenario. Paths in the scenario are relative to its
/// folder. Overrides as in load_config. Errors: bad_config with file, line and
/// key.
result<loaded_scenario>
load_scenario(const std::string& path,
              const std::vector<std::string>& overrides = {});

/// Parses a scenario from a text. Errors name the text by `file`; paths are
/// relative to the folder of `file`.
result<loaded_scenario>
parse_scenario(const std::string& text, const std::string& file,
               const std::vector<std::string>& overrides = {});

/// A Markdown table of all options of a scenario.
std::string scenario_reference();

} // namespace millrace

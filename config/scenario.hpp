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

/// Where a model's bytes are when the run begins.
enum class bundle_place : uint8_t { host, store };

constexpr auto names_of(bundle_place) {
  return name_table{"host", "store"};
}

/// A model of which only what it costs is known.
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
  /// layers have as many.
  std::vector<uint64_t> layer_bytes{};
  MILLRACE_FIELDS(simulated_model, application, accuracy, bytes, input, output,
                  layers, passed, profile, profile_layers, execute, load, send,
                  like, times, at, on, broken, versions, alike)
  static constexpr auto notes() {
    return std::array{
      note{"what it is a variant of"},
      note{"fraction of right answers", 0, 1},
      note{"of its weights"},
      note{"of one row of its input", 1, 1e9},
      note{"of one row of its output", 1, 1e9},
      note{"that it can be cut into, of as many bytes each, or in the"
           " proportion of its profile's parameter_bytes",
           1, 1024},
      note{"of one row, from each layer to the next; 0: as its input", 0, 1e9},
      note{"file with its measured times"},
      note{"which layers' of that file, where it has several"},
      note{"its times as a table: device kind, rows, time of a batch; between"
           " two sizes on a straight line, beyond them on the last one"},
      note{"time to load it, by device kind"},
      note{"the part of that which each replica takes whatever the host's"
           " process has attached (see emulate.attach): from the host's memory"
           " to the device, by device kind"},
      note{"a model of this file whose times it takes"},
      note{"and what these are multiplied by", 1e-6, 1e6},
      note{"where its bytes are at first: on every host's disk, or only in the"
           " object store, from which hosts get them in chains"},
      note{"hosts that have it on their disks, in place of all; the others get"
           " it from these in chains"},
      note{"true: nodes list it, and find on opening that its bytes are"
           " wrong"},
      note{"how many there are of it; the first is the default", 1, 1000},
      note{"false: each version has a layer more than the one before"}};
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
      note{"between two points of what is drawn over time", 1e-3, 86'400},
      note{"a table of all requests"}, note{"a table of what happened"},
      note{"a trace for Perfetto"},
      note{"requests that the trace has, the first ones", 1, 1e6}};
  }
};

/// A simulated run: a cluster, what it is asked, and what goes wrong.
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
      note{"of the run"},
      note{"options of a system of the literature, which stand where this file"
           " sets none: bl, gpu-faas, flashpoint, or a file like those of"
           " config/policies"},
      note{"of everything that is left to chance"},
      note{"how long requests arrive", 1e-3, 3.2e7},
      note{"time before that, for the cluster to form and to load", 0, 86'400},
      note{"a file with kinds of devices, such as config/catalogue.yaml"},
      note{"a cluster's config, whose nodes, models, link, gateway and monitor"
           " are taken; or the next ones:"},
      note{"the hosts, by groups"},
      note{"the models there are, by name, with what they cost"},
      note{"what is served from the start"},
      note{"how nodes notice each other's end"},
      note{"what a gateway holds at most"},
      note{"how models are scaled together, by scope"},
      note{"machines that are requested while they are needed, by pool; see"
           " hosts[].pool and scopes.NAME.pool"},
      note{"which device each replica goes to"},
      note{"which variant of an application answers a request"},
      note{"how demand is reported"},
      note{"how nodes are watched; by default not at all"},
      note{"what is between them"},
      note{"parts in which large files travel: larger ones are cheaper to"
           " simulate and share links less finely",
           1024, 1e12},
      note{"how hosts give each other models"},
      note{
        "whether the controllers know the times of all bundles from the start,"
        " as if they had been measured; else they learn from requests"},
      note{"what a host takes until what it writes is on its disk", 0, 60},
      note{"how long decisions take before they have effect: name, size of the"
           " problem (placement: replicas; scaling: models of the scope), time;"
           " between two sizes on a straight line; default: no time (millrace"
           " bench decisions --yaml measures them)"},
      note{"what is asked"},
      note{"what goes wrong"},
      note{"what is kept of the run"},
      note{"how seeds are explored"}};
  }
};

/// A scenario, read, checked and ready to run.
struct loaded_scenario {
  std::string file; ///< for errors
  scenario spec;
  cluster_config cluster; ///< every host a node
  /// Of each host group its nodes.
  std::map<std::string, std::vector<std::string>> groups;
  std::map<std::string, double> price; ///< of an hour, by node
  /// What a node's disk reads in a second; of the others it takes no time.
  std::map<std::string, bandwidth> disk_speed;
  std::shared_ptr<const profile_book> profiles;
};

/// The nodes of that name, or of the host group of that name.
std::vector<std::string> nodes_of(const loaded_scenario& x,
                                  const std::string& name);

/// Reads and checks a scenario; paths in it are taken from its own place.
/// Overrides as in load_config. Errors: bad_config with file, line and key.
result<loaded_scenario>
load_scenario(const std::string& path,
              const std::vector<std::string>& overrides = {});

/// The same for a text; `file` is how errors name it, and where paths begin.
result<loaded_scenario>
parse_scenario(const std::string& text, const std::string& file,
               const std::vector<std::string>& overrides = {});

/// Every option of a scenario, as Markdown.
std::string scenario_reference();

} // namespace millrace

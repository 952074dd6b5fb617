// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "transport/simulated/network.hpp"

namespace millrace {

/// Devices of one kind in a host.
struct device_group {
  std::string kind = "emulated";
  uint64_t count = 1;
  uint32_t lanes = 1;
  byte_count memory;
  emulation emulate;
  MILLRACE_FIELDS(device_group, kind, count, lanes, memory, emulate)
  static constexpr auto notes() {
    return std::array{
      note{"what profiles and the catalogue call it"},
      note{"so many of them", 1, 64},
      note{"batches that run at once on each", 1, 256},
      note{"what replicas may take on each in all; 0: what the catalogue says"},
      note{"how it takes its time where no profile tells"}};
  }
};

/// Hosts that are alike; each runs one node.
struct host_group {
  std::string name;
  uint64_t count = 0;
  std::vector<node_role> roles;
  uint64_t rack_size = 0;
  std::string rack;
  std::vector<device_group> devices;
  double price = 0;
  MILLRACE_FIELDS(host_group, name, count, roles, rack_size, rack, devices,
                  price)
  static constexpr auto notes() {
    return std::array{
      note{"of the node; with a count, NAME-1, NAME-2 and so on"},
      note{"so many hosts; 0: one, and its name has no number", 0, 100'000},
      note{"what their nodes do"},
      note{"hosts that share a rack, named RACK-1 and so on; 0: all of them", 0,
           100'000},
      note{"name of their rack, or racks; default: none, on the spine itself"},
      note{"what their nodes compute with"},
      note{"an hour of one host, in whatever currency; 0: what the catalogue"
           " says of its devices",
           0, 1e6}};
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
  std::string profile;
  std::map<std::string, std::map<std::string, microseconds>> execute;
  std::map<std::string, microseconds> load;
  std::string like;
  double times = 1;
  bundle_place at = bundle_place::host;
  bool broken = false;
  MILLRACE_FIELDS(simulated_model, application, accuracy, bytes, input, output,
                  profile, execute, load, like, times, at, broken)
  static constexpr auto notes() {
    return std::array{
      note{"what it is a variant of"},
      note{"fraction of right answers", 0, 1},
      note{"of its weights"},
      note{"of one row of its input", 1, 1e9},
      note{"of one row of its output", 1, 1e9},
      note{"file with its measured times"},
      note{"its times as a table: device kind, rows, time of a batch; between"
           " two sizes on a straight line, beyond them on the last one"},
      note{"time to load it, by device kind"},
      note{"a model of this file whose times it takes"},
      note{"and what these are multiplied by", 1e-6, 1e6},
      note{"where its bytes are at first: on every host's disk, or only in the"
           " object store, over whose link each host then fetches them once"},
      note{"true: nodes list it, and find on opening that its bytes are"
           " wrong"}};
  }
};

/// How requests arrive.
enum class arrival_process : uint8_t {
  poisson,
  constant,  ///< evenly spaced
  gamma,     ///< independent gaps of a wished coefficient of variation
  bursts,    ///< Poisson at a rate that is now high, now low
  ramp,      ///< Poisson at a rate that grows or falls evenly
  rates,     ///< a file of requests per second
  times,     ///< a file of single arrivals
  functions, ///< many functions with heavy-tailed rates, as in Azure's traces
};

constexpr auto names_of(arrival_process) {
  return name_table{"poisson", "constant", "gamma", "bursts",
                    "ramp",    "rates",    "times", "functions"};
}

/// One stream of requests.
struct workload_part {
  std::string model;
  std::string application;
  std::map<std::string, double> mix;
  arrival_process arrivals = arrival_process::poisson;
  double rate = 1;
  double to_rate = 0;
  double cv = 1;
  double burst = 4;
  double burst_part = 0.1;
  microseconds burst_length{10'000'000};
  std::string file;
  double scale = 1;
  uint64_t functions = 100;
  double tail = 1.2;
  microseconds start{0};
  microseconds length{0};
  uint64_t rows = 1;
  microseconds deadline{0};
  microseconds slo{0};
  MILLRACE_FIELDS(workload_part, model, application, mix, arrivals, rate,
                  to_rate, cv, burst, burst_part, burst_length, file, scale,
                  functions, tail, start, length, rows, deadline, slo)
  static constexpr auto notes() {
    return std::array{
      note{"who is asked"},
      note{"or which application, whose quickest variant then answers"},
      note{"or several models, each with its weight"},
      note{"how requests arrive"},
      note{"requests per second, on average (ramp: at first)", 1e-6, 1e7},
      note{"of a ramp, at its end", 0, 1e7},
      note{"coefficient of variation of a gamma process's gaps", 0.01, 100},
      note{"how many times the usual rate a burst has", 1, 1e4},
      note{"part of the time that is burst", 0.001, 0.999},
      note{"mean length of a burst", 1e-3, 86'400},
      note{"of rates or times; gzipped ones too"},
      note{"multiplies every rate", 1e-6, 1e6},
      note{"how many functions, spread over the models by chance", 1, 1e6},
      note{"exponent of the functions' rates: the n-th busiest has a rate like"
           " n to the power of minus this",
           0.1, 5},
      note{"when it begins", 0, 3.2e7},
      note{"how long it lasts; 0: to the end", 0, 3.2e7},
      note{"in one request", 1, 4096},
      note{"of each request; 0: the model's", 0, 600},
      note{"what counts as goodput; 0: the deadline", 0, 600}};
  }
};

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
  store,     ///< the object store gives it nothing
  wipe,      ///< killed, and started again with an empty disk
};

constexpr auto names_of(fault_kind) {
  return name_table{"kill",  "hang",   "slow", "partition", "one_way", "loss",
                    "delay", "device", "load", "store",     "wipe"};
}

/// Something that goes wrong.
struct fault_spec {
  fault_kind kind = fault_kind::kill;
  std::vector<std::string> nodes;
  std::optional<microseconds> at;
  microseconds every{0};
  microseconds lasts{0};
  double part = 0.01;
  double factor = 10;
  microseconds by{20'000};
  MILLRACE_FIELDS(fault_spec, kind, nodes, at, every, lasts, part, factor, by)
  static constexpr auto notes() {
    return std::array{
      note{"what happens"},
      note{"to which nodes, by name or host group; default: any worker"},
      note{"when"},
      note{"or how often on average, each time to one of the nodes", 0, 3.2e7},
      note{"how long; 0: for good, and a hang, wipe or device fault 1 s", 0,
           3.2e7},
      note{"of packets, executions or loads that fail", 0, 1},
      note{"how many times slower", 1, 1e6},
      note{"how much later each message comes", 0, 60}};
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
  monitor_config monitor{microseconds{0}};
  network_settings network;
  byte_count chunk{4u << 20};
  std::map<std::string, std::map<std::string, microseconds>> decisions;
  std::vector<workload_part> workload;
  std::vector<fault_spec> faults;
  record_config record;
  MILLRACE_FIELDS(scenario, name, seed, length, warm_up, catalogue, cluster,
                  hosts, bundles, models, link, gateway, monitor, network,
                  chunk, decisions, workload, faults, record)
  static constexpr auto notes() {
    return std::array{
      note{"of the run"},
      note{"of everything that is left to chance", 0, 1.8e19},
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
      note{"how nodes are watched; by default not at all"},
      note{"what is between them"},
      note{"parts in which large files travel: larger ones are cheaper to"
           " simulate and share links less finely",
           1024, 1e12},
      note{"how long decisions take before they have effect: name"
           " (placement), size of the problem (replicas), time; between two"
           " sizes on a straight line; default: no time"},
      note{"what is asked"},
      note{"what goes wrong"},
      note{"what is kept of the run"}};
  }
};

/// A scenario, read, checked and ready to run.
struct loaded_scenario {
  scenario spec;
  cluster_config cluster;              ///< every host a node
  std::map<std::string, double> price; ///< of an hour, by node
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

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The only input of a policy: an immutable picture of the cluster, made of
/// shared parts. No actor handles: policies include this file.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/device/device_info.hpp"
#include "runtime/fields.hpp"
#include "runtime/time.hpp"
#include "transport/messages/costs.hpp"
#include "transport/messages/demand.hpp"
#include "transport/messages/desired.hpp"
#include "transport/messages/peer.hpp"

namespace millrace {

/// A bundle in the memory for bundles of a node.
struct held_bundle {
  std::string content;
  uint64_t bytes = 0; ///< size in the memory
  bool used = false;  ///< by an actor of the node
  bool last = false;  ///< no other node has it: not evicted
  MILLRACE_FIELDS(held_bundle, content, bytes, used, last)
};

/// A node as its last inventory describes it, with the orders applied that the
/// node has not confirmed yet.
struct node_state {
  member node;
  std::vector<device_info> devices;
  std::vector<model_info> models; ///< bundles on its disk, or in stores
  std::vector<model_info> kept;   ///< whole bundles that came from other nodes
  std::vector<replica_status> replicas;
  bool draining = false;
  bool fetches = false;          ///< can fetch bundles from other nodes
  uint64_t cache_memory = 0;     ///< bytes for bundles; 0: not known
  std::vector<held_bundle> held; ///< bundles in that memory
  MILLRACE_FIELDS(node_state, node, devices, models, kept, replicas, draining,
                  fetches, cache_memory, held)
};

/// A registered model: the operator's settings, and the bundle that they
/// select.
struct model_state {
  model_settings settings;
  std::string scope;    ///< scope that owns the model
  uint64_t version = 0; ///< 0: no node has the wanted version
  model_info bundle;    ///< of this version; empty with 0
  /// A policy decides the number of replicas, which may be 0 while the model is
  /// served. False for a fixed number and for a model that was unloaded.
  bool elastic = false;
  MILLRACE_FIELDS(model_state, settings, scope, version, bundle, elastic)
};

/// A group as its running replicas describe it.
struct group_state {
  group_tag group;
  layer_range layers;
  uint64_t version = 0;
  uint64_t ready = 0;
  uint64_t starting = 0;
  MILLRACE_FIELDS(group_state, group, layers, version, ready, starting)
};

/// Load of one stage over all gateways: means over the batches of the last 2 s.
/// With fewer than 30 batches the window grows to 30 batches, at most 60 s.
struct stage_load {
  layer_range layers;   ///< {0, 0}: whole replicas
  double batch = 0;     ///< requests in a batch, on average
  double wait = 0;      ///< mean seconds a batch waits
  double run = 0;       ///< mean seconds a batch runs
  double run_cv = 0;    ///< coefficient of variation of these
  double queue = 0;     ///< mean number of requests that wait
  uint64_t batches = 0; ///< in the last 2 s
  MILLRACE_FIELDS(stage_load, layers, batch, wait, run, run_cv, queue, batches)
};

/// Demand for one model, over all gateways, and the replicas that answer it.
struct model_load {
  double rate = 0; ///< arrivals a second, over the last second
  /// Arrivals in each of the last seconds, the latest first; at most 60.
  std::vector<double> seconds;
  uint64_t waiting = 0;   ///< requests that no replica has
  microseconds oldest{0}; ///< since the first of these arrived
  double wait = 0;        ///< mean seconds until execution, lately
  double service = 0;     ///< device-seconds of one request, lately; 0: none
  double within = 1;      ///< part of the answers within the SLO, lately
  double arrival_cv = 0;  ///< of the gaps between arrivals; 0: not known
  microseconds last_arrival{-1};  ///< as cluster_snapshot::at; below 0: none
  bool pressure = false;          ///< requests wait, and no replica is ready
  std::vector<stage_load> stages; ///< by layers
  std::vector<group_state> groups;
  MILLRACE_FIELDS(model_load, rate, seconds, waiting, oldest, wait, service,
                  within, arrival_cv, last_arrival, pressure, stages, groups)
};

/// Registry to cluster state: the intent of operators and config.
struct registered {
  std::vector<model_settings> models;
  std::map<std::string, scope_settings> scopes;
  std::map<std::string, std::string> pins; ///< by model: its groups
  MILLRACE_FIELDS(registered, models, scopes, pins)
};

/// A scope, and the models that it owns.
struct scope_state {
  scope_settings settings;
  std::vector<std::string> models; ///< in order of their names
  MILLRACE_FIELDS(scope_state, settings, models)
};

/// A picture of the cluster at one moment. Parts that have not changed are
/// shared with the picture before.
struct cluster_snapshot {
  uint64_t number = 0;
  uint64_t epoch = 0; ///< of the controller
  microseconds at{0}; ///< when it was taken, since the controller began
  /// Time for which every known gateway has reported without a gap; 0 while a
  /// report is overdue. Low figures are meaningless beyond that time.
  microseconds covered{0};
  /// Time up to which all reporting gateways have counted, as `at`.
  microseconds counted{0};
  std::map<std::string, std::shared_ptr<const node_state>> nodes;
  std::map<std::string, std::shared_ptr<const model_state>> models;
  std::map<std::string, std::shared_ptr<const model_load>> loads; ///< by model
  std::map<std::string, std::shared_ptr<const scope_state>> scopes;
  std::shared_ptr<const cost_book> costs; ///< null: no report from the profiler
  std::map<std::string, std::shared_ptr<const pool_state>> pools;
  /// Machines that are not released, by name.
  std::map<std::string, std::shared_ptr<const machine_state>> machines;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Desired state: what scaling policies propose and what the placement
/// commits. No actor handles: policies include this file.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/device/sharing.hpp"
#include "runtime/fields.hpp"
#include "runtime/time.hpp"
#include "transport/messages/machine.hpp"
#include "transport/messages/model.hpp"

namespace millrace {

/// Parameters of one replica that change without a reload.
struct tunables {
  uint64_t batch = 64;      ///< rows of a batch, at most
  uint64_t concurrency = 0; ///< batches at once; 0: one per lane of the device
  uint64_t threads = 1;     ///< of one execution
  /// Share of the batches, relative to other replicas of the model that have
  /// room: a replica of weight 2 gets twice the batches of one of weight 1.
  double weight = 1;
  uint64_t rows_max = 0; ///< of one request, which then runs alone; 0: no limit
  MILLRACE_FIELDS(tunables, batch, concurrency, threads, weight, rows_max)
};

/// Replicas of one model, or of one part of it, that are alike. A policy
/// chooses the id; replicas of a group stay when other groups change.
struct replica_group {
  std::string id; ///< "SCOPE/MODEL/KEY"
  std::string model;
  uint64_t version = 0; ///< 0: no node has the version that is wanted
  uint64_t stage = 0;   ///< number of the part within its cut, from 0
  layer_range layers;   ///< {0, 0}: all layers, of a bundle that is not known
  /// Groups of one model with the same cut make up its copies together and are
  /// placed all or none. Unique within the model.
  std::string cut;
  /// The cut whose replicas become whole ones: on each device with a ready
  /// replica of that cut a replica of this group is loaded beside it. Empty:
  /// the group stands for itself.
  std::string extends;
  std::string device; ///< kind, id, NODE/ID; empty: any
  double share = 0;   ///< part of a device, as in model_settings
  uint64_t count = 0;
  uint64_t least = 0;             ///< ready replicas that a rollout keeps
  int64_t priority = 0;           ///< a higher one is placed first
  std::vector<std::string> avoid; ///< nodes
  /// Rows that its replicas are loaded for; 0: at least tuned.batch.
  uint64_t batch_max = 0;
  tunables tuned;
  uint64_t units = 0; ///< of its device that a replica takes
  MILLRACE_FIELDS(replica_group, id, model, version, stage, layers, cut,
                  extends, device, share, count, least, priority, avoid,
                  batch_max, tuned, units)
};

/// The group of a replica, as its assignment carries it: a new controller
/// rebuilds the groups from the replicas that run.
struct group_tag {
  std::string id;
  std::string scope;
  std::string cut;
  uint64_t stage = 0;
  std::string extends;
  std::string device; ///< the selector of the group
  uint64_t count = 0;
  uint64_t least = 0;
  int64_t priority = 0;
  MILLRACE_FIELDS(group_tag, id, scope, cut, stage, extends, device, count,
                  least, priority)
};

/// How a device, or several, are to be shared.
struct device_plan {
  std::string device; ///< kind, id or NODE/ID
  device_sharing sharing;
  MILLRACE_FIELDS(device_plan, device, sharing)
};

/// The delay of one stage of a model as a policy sees it.
struct stage_delay {
  layer_range layers;
  double delay = 0;  ///< seconds that a request waits and runs there
  double target = 0; ///< seconds that it may
  bool key = false;  ///< the policy adds replicas, or did so lately
  MILLRACE_FIELDS(stage_delay, layers, delay, target, key)
};

/// State of a variant (INFaaS, section 3.2).
enum class variant_state : uint8_t {
  inactive,   ///< no replica is ready
  active,     ///< serves below its peak throughput
  overloaded, ///< serves at its peak throughput
  interfered  ///< below its peak, but slower than its profile
};

constexpr auto names_of(variant_state) {
  return name_table{"inactive", "active", "overloaded", "interfered"};
}

/// A variant of an application as its scaling policy sees it: what gateways
/// need to choose among variants.
struct variant_standing {
  variant_state state = variant_state::inactive;
  double cost = 0;       ///< per second, of a replica
  double load = 0;       ///< seconds until a replica is ready
  double latency = 0;    ///< seconds of a batch, by the profile
  bool room = false;     ///< some device has room for a replica
  double saturation = 0; ///< requests per second of one replica, at most
  MILLRACE_FIELDS(variant_standing, state, cost, load, latency, room,
                  saturation)
};

/// Autoscaler to placement: the groups of one scope. Replaces the previous
/// proposal of the scope. A model of the scope without a group in it keeps what
/// it has; none at all is a group with count 0.
struct proposal {
  std::string scope;
  uint64_t epoch = 0;    ///< of the controller
  uint64_t snapshot = 0; ///< number of the snapshot it was decided on
  std::vector<replica_group> groups;
  std::map<std::string, std::string> reasons; ///< by model: why so many
  std::map<std::string, std::string> refused; ///< by model: why it has no plan
  /// Devices without an entry, of any scope, are shared as configured. Of two
  /// entries for a device the later counts.
  std::vector<device_plan> devices;
  /// Machines of pools that the scope owns. A pool without an entry keeps the
  /// machines that it has.
  std::vector<machine_count> machines;
  /// By model: the stages of its pipelines, where the policy looks at them.
  std::map<std::string, std::vector<stage_delay>> stages;
  /// By model: variants of an application, where the policy compares them.
  std::map<std::string, variant_standing> variants;
  MILLRACE_FIELDS(proposal, scope, epoch, snapshot, groups, reasons, refused,
                  devices, machines, stages, variants)
};

/// One replica that shall be, and its device. Written by the placement alone.
struct assignment {
  std::string replica; ///< unique name, "MODEL.VERSION.NUMBER"
  std::string model;
  uint64_t version = 0;
  layer_range layers; ///< that it has
  std::string node;
  std::string device;
  double share = 0;
  uint64_t batch_max = 1; ///< rows of the largest batch that it is loaded for
  tunables tuned;
  bool trusted = false;             ///< as in model_settings
  std::vector<std::string> tenants; ///< as in model_settings
  serving_policy policy;
  /// The replica there of a part that this one, of the whole model, is to take
  /// the place of: it has the other layers loaded while that one serves. Empty:
  /// none.
  std::string extends_replica;
  std::string content;       ///< the bundle that is meant, as in model_info
  uint64_t bytes = 0;        ///< of its weights, what these layers need
  bool skip_warm_up = false; ///< as in load_request
  group_tag group;
  uint64_t units = 0; ///< of the device that the replica takes
  MILLRACE_FIELDS(assignment, replica, model, version, layers, node, device,
                  share, batch_max, tuned, trusted, tenants, policy,
                  extends_replica, content, bytes, skip_warm_up, group, units)
};

enum class replica_condition : uint8_t {
  starting, ///< fetching, loading or warming up
  ready,
  draining,
  failed
};

constexpr auto names_of(replica_condition) {
  return name_table{"starting", "ready", "draining", "failed"};
}

/// How a replica is: from it to its supervisor, and in inventories.
struct replica_status {
  assignment what;
  replica_condition state = replica_condition::starting;
  std::string reason; ///< with failed
  uint64_t memory = 0;
  microseconds load{0};    ///< from when its bundle was there
  microseconds warm_up{0}; ///< after that
  microseconds fetch{0};   ///< until its bundle was there and verified
  /// With failed: the model is not to blame, but its requests, for one of them
  /// took too long; or what its process was forked from was lost.
  bool excused = false;
  std::string from{}; ///< where its bundle was: disk, memory, a node or a store
  microseconds first_answer{-1}; ///< since it was ready; below 0: none yet
  MILLRACE_FIELDS(replica_status, what, state, reason, memory, load, warm_up,
                  fetch, excused, from, first_answer)
};

/// A model to serve, with its version.
struct wanted_model {
  std::string model;
  uint64_t version = 0;             ///< 0: no node has the wanted version
  std::string application;          ///< of the bundle; empty without one
  std::vector<std::string> tenants; ///< as in model_settings
  /// Why the model has fewer replicas than wanted; empty: it has all.
  std::string note;
  microseconds slo{0}; ///< as in model_settings
  /// Requests wait while no replica is ready. `info` is set then: a gateway
  /// makes the router from it.
  bool waits = false;
  model_info info{};
  serving_policy policy{};
  bool stuck = false; ///< no replica runs or can be started; see note
  /// Nodes by the names of the replicas that the controller has assigned to
  /// them: a gateway takes no others.
  std::map<std::string, std::string> replicas;
  /// As the scaling policy of its application sees it; nothing: it has none.
  std::optional<variant_standing> standing{};
  MILLRACE_FIELDS(wanted_model, model, version, application, tenants, note, slo,
                  waits, info, policy, stuck, replicas, standing)
};

/// Controller to gateways: these are to be served, and no others. Obeyed only
/// from the newest controller epoch the gateway has seen.
struct wanted_models {
  uint64_t epoch = 0;
  std::vector<wanted_model> models;
  MILLRACE_FIELDS(wanted_models, epoch, models)
};

} // namespace millrace

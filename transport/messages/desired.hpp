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
  /// Rows of one request, which then runs alone; 0: no limit.
  uint64_t rows_max = 0;
  MILLRACE_FIELDS(tunables, batch, concurrency, threads, weight, rows_max)
};

/// Replicas of one model, or of one part of it, with equal parameters. The
/// policy chooses the id. Replicas of a group stay when other groups change.
struct replica_group {
  std::string id; ///< "SCOPE/MODEL/KEY"
  std::string model;
  uint64_t version = 0; ///< 0: no node has the version that is wanted
  uint64_t stage = 0;   ///< number of the part within its cut, from 0
  layer_range layers; ///< {0, 0}: all layers of a bundle that is not known yet
  /// Groups of one model with the same cut form whole copies and are placed all
  /// or none. Unique within the model.
  std::string cut;
  /// The cut whose replicas this group completes: on each device with a ready
  /// replica of that cut, a replica of this group is loaded beside it. Empty:
  /// the group is independent.
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
  uint64_t units = 0; ///< units of its device per replica
  MILLRACE_FIELDS(replica_group, id, model, version, stage, layers, cut,
                  extends, device, share, count, least, priority, avoid,
                  batch_max, tuned, units)
};

/// The group of a replica, stored in its assignment: a new controller rebuilds
/// the groups from the running replicas.
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
  double delay = 0;  ///< seconds that a request waits and runs in the stage
  double target = 0; ///< target of `delay`, in seconds
  bool key = false;  ///< the policy adds replicas, or did so recently
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
  double cost = 0;       ///< of one replica, per second
  double load = 0;       ///< seconds from the order to a ready replica
  double latency = 0;    ///< seconds per batch, from the profile
  bool room = false;     ///< some device has room for a replica
  double saturation = 0; ///< requests per second of one replica, at most
  MILLRACE_FIELDS(variant_standing, state, cost, load, latency, room,
                  saturation)
};

/// Autoscaler to placement: the groups of one scope. Replaces the previous
/// proposal of the scope. A model without a group in the proposal keeps its
/// replicas; a group with count 0 removes them.
struct proposal {
  std::string scope;
  uint64_t epoch = 0;    ///< of the controller
  uint64_t snapshot = 0; ///< number of the snapshot that it is based on
  std::vector<replica_group> groups;
  /// By model: the reason for the count.
  std::map<std::string, std::string> reasons;
  /// By model: why there is no plan.
  std::map<std::string, std::string> refused;
  /// Devices without an entry, of any scope, are shared as configured. Of two
  /// entries for a device the later counts.
  std::vector<device_plan> devices;
  /// Machines of pools that the scope owns. A pool without an entry keeps the
  /// machines that it has.
  std::vector<machine_count> machines;
  /// By model: the stages of its pipelines, if the policy evaluates stages.
  std::map<std::string, std::vector<stage_delay>> stages;
  /// By model: variants of an application, if the policy compares them.
  std::map<std::string, variant_standing> variants;
  MILLRACE_FIELDS(proposal, scope, epoch, snapshot, groups, reasons, refused,
                  devices, machines, stages, variants)
};

/// A replica to run, and its device. Created by the placement only.
struct assignment {
  std::string replica; ///< unique name, "MODEL.VERSION.NUMBER"
  std::string model;
  uint64_t version = 0;
  layer_range layers; ///< of the replica
  std::string node;
  std::string device;
  double share = 0;
  uint64_t batch_max = 1; ///< rows of the largest batch that it is loaded for
  tunables tuned;
  bool trusted = false;             ///< as in model_settings
  std::vector<std::string> tenants; ///< as in model_settings
  serving_policy policy;
  /// The replica of a part, on the same device, that this replica of the whole
  /// model will replace. This replica loads the other layers while the part
  /// serves. Empty: none.
  std::string extends_replica;
  std::string content; ///< SHA-256 of the bundle's manifest, as in model_info
  uint64_t bytes = 0;  ///< weights of these layers
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

/// State of a replica: sent to its supervisor, and part of inventories.
struct replica_status {
  assignment what;
  replica_condition state = replica_condition::starting;
  std::string reason; ///< of the failure
  uint64_t memory = 0;
  microseconds load{0};    ///< load time, once the bundle was on the host
  microseconds warm_up{0}; ///< time after the load
  microseconds fetch{0}; ///< time until the bundle was on the host and verified
  /// With failed: the model is not at fault. A request took too long, or the
  /// process that its process was forked from was lost.
  bool excused = false;
  std::string from{}; ///< source of the bundle: disk, memory, a node or a store
  microseconds first_answer{-1}; ///< since `ready`; below 0: none yet
  MILLRACE_FIELDS(replica_status, what, state, reason, memory, load, warm_up,
                  fetch, excused, from, first_answer)
};

/// A model to serve, with its version.
struct wanted_model {
  std::string model;
  uint64_t version = 0;             ///< 0: no node has the wanted version
  std::string application;          ///< from the bundle; may be empty
  std::vector<std::string> tenants; ///< as in model_settings
  /// Why the model has fewer replicas than wanted; empty: it has all of its
  /// replicas.
  std::string note;
  microseconds slo{0}; ///< as in model_settings
  /// Requests wait while no replica is ready, in a router that the gateway
  /// creates from `info`. `info` is set then.
  bool waits = false;
  model_info info{};
  serving_policy policy{};
  bool stuck = false; ///< no replica runs or can be started; see note
  /// Node by replica name, for the replicas that the controller has assigned. A
  /// gateway accepts no others.
  std::map<std::string, std::string> replicas;
  /// From the scaling policy of its application; none: the policy has no data.
  std::optional<variant_standing> standing{};
  MILLRACE_FIELDS(wanted_model, model, version, application, tenants, note, slo,
                  waits, info, policy, stuck, replicas, standing)
};

/// Controller to gateways: the models to serve, and no others. Ignored unless
/// it comes from the newest controller epoch that the gateway has seen.
struct wanted_models {
  uint64_t epoch = 0;
  std::vector<wanted_model> models;
  MILLRACE_FIELDS(wanted_models, epoch, models)
};

} // namespace millrace

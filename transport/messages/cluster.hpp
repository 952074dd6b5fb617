// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include <caf/actor_control_block.hpp>

#include "runtime/fields.hpp"
#include "transport/messages/decision.hpp"
#include "transport/messages/snapshot.hpp"

namespace millrace {

// -- orders ------------------------------------------------------------------

/// Controller to node: run this replica. Idempotent. Ignored unless it comes
/// from the newest controller epoch that the node has seen.
struct deploy {
  uint64_t epoch = 0;
  uint64_t sequence = 0; ///< number of the order, by controller and node
  assignment what;
  MILLRACE_FIELDS(deploy, epoch, sequence, what)
};

/// Controller to node: drain this replica, then end it. Idempotent.
struct evict {
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  std::string replica;
  MILLRACE_FIELDS(evict, epoch, sequence, replica)
};

/// Controller to node: new parameters of a running replica, without a reload.
/// Idempotent. Ignored if the node does not have the replica.
struct adjust {
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  std::string replica;
  tunables tuned;
  serving_policy policy;
  std::vector<std::string> tenants;
  group_tag group; ///< new group of the replica
  MILLRACE_FIELDS(adjust, epoch, sequence, replica, tuned, policy, tenants,
                  group)
};

/// Controller to node: changes how a device is shared. Idempotent.
struct adjust_device {
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  std::string device;                    ///< its id
  std::optional<device_sharing> sharing; ///< none: as configured
  MILLRACE_FIELDS(adjust_device, epoch, sequence, device, sharing)
};

/// Operator to supervisor: slows an emulated device down, to test how policies
/// react. Answered by ack; bad_request for a device that is not emulated.
struct slow_device {
  std::string device; ///< its id
  double factor = 1;  ///< multiplies its execution times; above 0
  MILLRACE_FIELDS(slow_device, device, factor)
};

/// Node to controller, after each new link and at each change: the state of the
/// node.
struct inventory {
  node_state state;
  uint64_t epoch = 0;    ///< of the last order that the node executed
  uint64_t sequence = 0; ///< number of the order; later orders are on their way
  caf::strong_actor_ptr supervisor;
  caf::strong_actor_ptr gateway; ///< null: the node has no gateway
  MILLRACE_FIELDS(inventory, state, epoch, sequence, supervisor, gateway)
};

/// Controller to nodes: send an inventory. Sent while the placement has no
/// inventories.
struct report_inventory {
  MILLRACE_FIELDS(report_inventory)
};

/// Operator to registry: replaces the groups of a model's policy by fixed
/// groups, until `unpin_model` or for a time. Answered once the pin is on disk.
/// Errors: unknown_model; bad_request for groups that policy `given` cannot
/// read.
struct pin_model {
  std::string model;
  std::string groups;   ///< in the syntax of the option of policy `given`
  microseconds time{0}; ///< 0: until unpin_model
  MILLRACE_FIELDS(pin_model, model, groups, time)
};
/// Operator to registry: ends a pin. Errors: unknown_model if there is none.
struct unpin_model {
  std::string model;
  MILLRACE_FIELDS(unpin_model, model)
};

/// Operator to registry: settings of a scope, which replace those of the
/// config. Answered once the settings are on disk. Errors: bad_request.
struct set_scope {
  std::string scope;
  std::optional<scope_settings> settings; ///< none: back to the config
  MILLRACE_FIELDS(set_scope, scope, settings)
};

/// Operator or config to registry: the settings of a model; replicas = 0
/// removes all replicas. Answered once the settings are on disk.
struct set_model {
  model_settings settings;
  /// From a config: does not replace the settings of an operator.
  bool is_default = false;
  /// The settings to replace; if others are registered nothing changes. Errors:
  /// conflict.
  std::optional<model_settings> instead_of;
  MILLRACE_FIELDS(set_model, settings, is_default, instead_of)
};

struct forget_model {
  std::string model;
  MILLRACE_FIELDS(forget_model, model)
};

//  -- queries
//  ------------------------------------------------------------------

struct get_members {
  MILLRACE_FIELDS(get_members)
};
/// A node that was lost, or left, and has not come back.
struct lost_member {
  member node;
  std::string reason;
  microseconds ago{0};
  MILLRACE_FIELDS(lost_member, node, reason, ago)
};
struct member_list {
  member self;
  std::vector<member> peers;
  std::vector<lost_member> lost;
  /// Nodes that left in good order, and nodes of the config that this node has
  /// not seen since its start.
  std::vector<lost_member> left;
  MILLRACE_FIELDS(member_list, self, peers, lost, left)
};

/// One actor in the actor tree of a node.
struct actor_info {
  std::string name;
  std::string parent;
  std::string state; ///< "running", or why it is not
  uint64_t restarts = 0;
  MILLRACE_FIELDS(actor_info, name, parent, state, restarts)
};

struct get_status {
  MILLRACE_FIELDS(get_status)
};

enum class node_condition : uint8_t { starting, ready, draining, failed };

constexpr auto names_of(node_condition) {
  return name_table{"starting", "ready", "draining", "failed"};
}

struct node_status {
  member node;
  node_condition state = node_condition::starting;
  std::string reason;
  microseconds uptime{0};
  std::vector<device_info> devices;
  std::vector<replica_status> replicas;
  std::vector<actor_info> actors;
  std::vector<model_info> models;
  /// For the operator to solve; the node works on.
  std::vector<std::string> troubles;
  std::vector<std::string> unusable; ///< devices that are out of service
  MILLRACE_FIELDS(node_status, node, state, reason, uptime, devices, replicas,
                  actors, models, troubles, unusable)
};

struct get_models {
  MILLRACE_FIELDS(get_models)
};

/// A registered model and the number of its copies.
struct model_status {
  model_settings settings;
  uint64_t wanted = 0; ///< copies
  uint64_t ready = 0;
  uint64_t starting = 0;
  std::string note; ///< why fewer than wanted are ready
  MILLRACE_FIELDS(model_status, settings, wanted, ready, starting, note)
};

struct model_list {
  std::vector<model_status> models;
  MILLRACE_FIELDS(model_list, models)
};

/// For operators: the latest starts of replicas, with the time of each step.
struct get_starts {
  MILLRACE_FIELDS(get_starts)
};

/// One start of a replica. Times run from the decision, by the controller's
/// clock.
struct replica_start {
  replica_status how;    ///< as last reported by its node
  microseconds ago{0};   ///< since the decision
  microseconds order{0}; ///< until its node began the start
  microseconds ready{0}; ///< until the controller received `ready`; 0: not yet
  MILLRACE_FIELDS(replica_start, how, ago, order, ready)
};

struct start_list {
  std::vector<replica_start> starts; ///< the latest first
  MILLRACE_FIELDS(start_list, starts)
};

/// Operator to node: accept no new work, finish open work, then leave. Answered
/// at once.
struct drain {
  MILLRACE_FIELDS(drain)
};

} // namespace millrace

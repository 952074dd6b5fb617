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

/// Controller to node: have this replica. Idempotent. Obeyed only from the
/// newest controller epoch the node has seen.
struct deploy {
  uint64_t epoch = 0;
  uint64_t sequence = 0; ///< of this controller's orders to this node
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

/// Controller to node: new parameters of a replica, without a reload.
/// Idempotent. Ignored for a replica that is not there.
struct adjust {
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  std::string replica;
  tunables tuned;
  serving_policy policy;
  std::vector<std::string> tenants;
  group_tag group; ///< that the replica belongs to now
  MILLRACE_FIELDS(adjust, epoch, sequence, replica, tuned, policy, tenants,
                  group)
};

/// Controller to node: shares a device otherwise from now on. Idempotent.
struct adjust_device {
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  std::string device;                    ///< its id
  std::optional<device_sharing> sharing; ///< none: as configured
  MILLRACE_FIELDS(adjust_device, epoch, sequence, device, sharing)
};

/// Operator to supervisor: an emulated device becomes slower, to try out how
/// policies react. Answered ack; bad_request for a device that is not emulated.
struct slow_device {
  std::string device; ///< its id
  double factor = 1;  ///< its times are multiplied by this; above 0
  MILLRACE_FIELDS(slow_device, device, factor)
};

/// Node to controller, at each meeting and whenever it changes: what it has.
struct inventory {
  node_state state;
  uint64_t epoch = 0;    ///< of the last order obeyed, and its number: orders
  uint64_t sequence = 0; ///< sent since are still on their way
  caf::strong_actor_ptr supervisor;
  caf::strong_actor_ptr gateway; ///< null where there is none
  MILLRACE_FIELDS(inventory, state, epoch, sequence, supervisor, gateway)
};

/// A controller whose placement knows nothing yet asks for inventories.
struct report_inventory {
  MILLRACE_FIELDS(report_inventory)
};

/// Operator to registry: fixes the groups of a model in place of its policy's,
/// until `unpin_model` or for a time. Answered once the pin is on disk. Errors:
/// unknown_model; bad_request for groups that policy `given` does not read.
struct pin_model {
  std::string model;
  std::string groups;   ///< as the option of policy `given`
  microseconds time{0}; ///< 0: until it is unpinned
  MILLRACE_FIELDS(pin_model, model, groups, time)
};
/// Operator to registry: ends a pin. Errors: unknown_model without a pin.
struct unpin_model {
  std::string model;
  MILLRACE_FIELDS(unpin_model, model)
};

/// Operator to registry: settings of a scope, in place of the config's.
/// Answered once the settings are on disk. Errors: bad_request.
struct set_scope {
  std::string scope;
  std::optional<scope_settings> settings; ///< none: those of the config again
  MILLRACE_FIELDS(set_scope, scope, settings)
};

/// Operator or config to registry: want this; replicas = 0 means none.
/// Answered once it is on disk.
struct set_model {
  model_settings settings;
  /// From a config: does not replace what an operator said.
  bool is_default = false;
  /// What is to be replaced, or nothing is done. Errors: conflict.
  std::optional<model_settings> instead_of;
  MILLRACE_FIELDS(set_model, settings, is_default, instead_of)
};

struct forget_model {
  std::string model;
  MILLRACE_FIELDS(forget_model, model)
};

// -- looking in ---------------------------------------------------------------

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

/// One actor of a node, for the tree.
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
  std::vector<std::string> troubles; ///< to see to, while it works on
  std::vector<std::string> unusable; ///< devices that are out of service
  MILLRACE_FIELDS(node_status, node, state, reason, uptime, devices, replicas,
                  actors, models, troubles, unusable)
};

struct get_models {
  MILLRACE_FIELDS(get_models)
};

/// What is registered and how far it is.
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

/// For people: the latest replicas that were started, and what took how long.
struct get_starts {
  MILLRACE_FIELDS(get_starts)
};

/// From the decision on, by the controller's clock.
struct replica_start {
  replica_status how;    ///< as its node said last
  microseconds ago{0};   ///< since it was decided
  microseconds order{0}; ///< until its node had begun
  microseconds ready{0}; ///< until it was heard to be ready; 0: it is not
  MILLRACE_FIELDS(replica_start, how, ago, order, ready)
};

struct start_list {
  std::vector<replica_start> starts; ///< the latest first
  MILLRACE_FIELDS(start_list, starts)
};

/// Operator to node: take no new work, finish, then leave. Answered at once.
struct drain {
  MILLRACE_FIELDS(drain)
};

} // namespace millrace

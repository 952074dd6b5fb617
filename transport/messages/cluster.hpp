// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include <caf/actor_control_block.hpp>

#include "models/device/device.hpp"
#include "runtime/fields.hpp"
#include "transport/messages/model.hpp"
#include "transport/messages/peer.hpp"

namespace millrace {

// -- desired state ------------------------------------------------------------

/// One replica that shall be, and where. Written by the placement alone.
struct assignment {
  std::string replica; ///< unique name, "MODEL.VERSION.NUMBER"
  std::string model;
  uint64_t version = 0;
  layer_range layers; ///< that it has
  std::string node;
  std::string device;
  double share = 0;
  uint64_t threads = 1;
  bool trusted = false;             ///< as in model_settings
  std::vector<std::string> tenants; ///< as in model_settings
  serving_policy policy;
  /// The replica there of a part that this one, of the whole model, is to take
  /// the place of: it has the other layers loaded while that one serves. Empty:
  /// none.
  std::string completes;
  std::string content;  ///< the bundle that is meant, as in model_info
  uint64_t bytes = 0;   ///< of its weights, what these layers need
  bool at_once = false; ///< as in load_request
  MILLRACE_FIELDS(assignment, replica, model, version, layers, node, device,
                  share, threads, trusted, tenants, policy, completes, content,
                  bytes, at_once)
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

/// A model that is to be served, and in which version.
struct wanted_model {
  std::string model;
  uint64_t version = 0;             ///< 0: no node has the one that is wanted
  std::string application;          ///< of its bundle, where there is one
  std::vector<std::string> tenants; ///< as in model_settings
  /// Why not all of it can be served; empty: nothing is wrong.
  std::string note;
  MILLRACE_FIELDS(wanted_model, model, version, application, tenants, note)
};

/// Controller to gateways: these are to be served, and no others. Obeyed only
/// from the newest controller epoch the gateway has seen.
struct wanted_models {
  uint64_t epoch = 0;
  std::vector<wanted_model> models;
  MILLRACE_FIELDS(wanted_models, epoch, models)
};

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
  bool blameless = false;
  std::string from{}; ///< where its bundle was: disk, memory, a node or a store
  microseconds first_answer{-1}; ///< since it was ready; below 0: none yet
  MILLRACE_FIELDS(replica_status, what, state, reason, memory, load, warm_up,
                  fetch, blameless, from, first_answer)
};

/// What a node has of a bundle in the memory that is for those.
struct held_bundle {
  std::string content;
  uint64_t bytes = 0; ///< that it takes
  bool used = false;  ///< by somebody here
  bool last = false;  ///< nobody else has it: it stays
  MILLRACE_FIELDS(held_bundle, content, bytes, used, last)
};

/// Node to controller, at each meeting and whenever it changes: what it has.
struct inventory {
  member node;
  std::vector<device_info> devices;
  std::vector<model_info> models; ///< bundles on its disk, or in stores
  std::vector<model_info> kept;   ///< that came from others, all of them
  std::vector<replica_status> replicas;
  bool draining = false;
  uint64_t epoch = 0;    ///< of the last order obeyed, and its number: orders
  uint64_t sequence = 0; ///< sent since are still on their way
  caf::strong_actor_ptr supervisor;
  caf::strong_actor_ptr gateway; ///< null where there is none
  bool fetches = false; ///< bundles that other nodes have, when it needs them
  uint64_t cache_memory = 0;     ///< bytes for bundles; 0: it does not know
  std::vector<held_bundle> held; ///< what has them
  MILLRACE_FIELDS(inventory, node, devices, models, kept, replicas, draining,
                  epoch, sequence, supervisor, gateway, fetches, cache_memory,
                  held)
};

/// A controller whose placement knows nothing yet asks for inventories.
struct report_inventory {
  MILLRACE_FIELDS(report_inventory)
};

/// Autoscaler to placement: so many replicas of each of these. Replaces what
/// the same scope proposed before.
struct proposal {
  std::string scope; ///< "cluster", or a model's name
  std::vector<model_settings> wanted;
  MILLRACE_FIELDS(proposal, scope, wanted)
};

/// Registry to autoscalers: the settings of all registered models.
struct registered {
  std::vector<model_settings> models;
  MILLRACE_FIELDS(registered, models)
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
/// A node that went without a goodbye and has not come back.
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
  MILLRACE_FIELDS(member_list, self, peers, lost)
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
  uint64_t ready = 0;
  uint64_t starting = 0;
  std::string note; ///< why fewer than wanted are ready
  MILLRACE_FIELDS(model_status, settings, ready, starting, note)
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

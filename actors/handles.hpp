// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The map of all actors: who understands what. One typed interface per role;
/// neighbours reach each other through these handles, whether they live in the
/// same process or on another node.

#include "actors/local_messages.hpp"
#include "actors/provider/machine_source.hpp"
#include "models/device/nvml.hpp"

namespace millrace {

// -- the request path ---------------------------------------------------------

/// The GATEWAY holds clients' requests until each has its one final answer.
using gateway_actor = caf::typed_actor<
  // A client's requests: each admitted to its model's router, or refused.
  caf::reacts_to<client_requests>,
  // The client does not want the answer any more.
  caf::reacts_to<client_cancel>,
  // It has gone.
  caf::reacts_to<client_left>,
  // A client asks which models there are.
  caf::reacts_to<client_describe>,
  // A replica can be used from now on.
  caf::reacts_to<replica_ready>,
  // The limits of a replica have changed.
  caf::reacts_to<replica_tuned>,
  // A replica takes no new batches.
  caf::reacts_to<replica_draining>,
  // The router's word on an admitted request.
  caf::reacts_to<requests_completed>,
  // How far one got that is tried again, or was given up.
  caf::reacts_to<request_track>,
  // Admitted requests whose model version is served no more.
  caf::reacts_to<requests_returned>,
  // Whether a router's replicas, which may be parts, lead through its model.
  caf::reacts_to<model_availability>,
  // The controller's word on which models are to be served.
  caf::reacts_to<wanted_models>,
  // A router's: how many requests wait, for the next report of demand.
  caf::reacts_to<backlog>,
  // Controllers come and go.
  caf::reacts_to<peer_up>, caf::reacts_to<peer_down>,
  // For people: requests that are open, and those that stood out.
  caf::replies_to<get_requests>::with<request_list>,
  // Refuses new requests; answers what is admitted, then ends.
  caf::reacts_to<finish>,
  // Private: some deadline has passed.
  caf::reacts_to<tick>>;

/// The ROUTER holds one model's queue and gives batches to ready replicas.
using router_actor = caf::typed_actor<
  // Queues requests; completes them as overloaded when the queue is full.
  caf::reacts_to<route>,
  // Nobody waits for this request any more.
  caf::reacts_to<cancel_request>,
  // Results of a batch, and the replica's credit back.
  caf::reacts_to<batch_done>,
  // The next stage accepted a batch.
  caf::reacts_to<batch_accepted>,
  // A replica holds the output of a batch until a next stage is free.
  caf::reacts_to<batch_ran>,
  // A replica no longer holds a batch.
  caf::reacts_to<batch_not_found>,
  // A replica lost its link to the next stage.
  caf::reacts_to<next_stage_unreachable>,
  // A replica of this model can take batches.
  caf::reacts_to<replica_ready>,
  // The limits of a replica have changed.
  caf::reacts_to<replica_tuned>,
  // The operator changed the model's serving policy.
  caf::reacts_to<serving_policy>,
  // It takes no new ones.
  caf::reacts_to<replica_draining>,
  // What waits is handed back, and what comes later, if that is said.
  caf::reacts_to<drain_queue>,
  // The gateway asks for the backlog, which is sent back.
  caf::reacts_to<get_backlog>,
  // For people: what waits, and who takes it; how far requests are.
  caf::replies_to<get_queue>::with<queue_status>,
  caf::replies_to<get_tracks>::with<track_list>,
  // Private: the oldest request is due, or may wait no longer for a batch.
  caf::reacts_to<tick>>;

/// A REPLICA is a loaded copy of a model, or of a part of it, on a device, as
/// routers see it.
using replica_actor = caf::typed_actor<
  // Runs a batch; answers its router with batch_done, or hands it on.
  caf::reacts_to<run_batch>,
  // Where to; or it is not wanted any more.
  caf::reacts_to<forward_batch>, caf::reacts_to<drop_batch>,
  // The next stage has it: the receipt that was asked for.
  caf::reacts_to<batch_accepted>,
  // The executor's result.
  caf::reacts_to<executed>,
  // What it had loaded is lost: it ends when what it has is answered.
  caf::reacts_to<stage_lost>,
  // Other nodes come and go: gateways among them hear of this replica.
  caf::reacts_to<peer_up>, caf::reacts_to<peer_down>,
  // How busy it is.
  caf::replies_to<get_load>::with<replica_load>,
  // Parameters that change without a reload.
  caf::reacts_to<adjust>,
  // The device is shared otherwise.
  caf::reacts_to<share_device>,
  // Drains, but for its own node's gateway.
  caf::reacts_to<finish_elsewhere>,
  // A gateway has nothing more for it.
  caf::reacts_to<router_released>,
  // Drains, unloads and ends.
  caf::reacts_to<finish>,
  // Private: announces itself again where a gateway was restarted, or the
  // cache.
  caf::reacts_to<tick>>;

/// An EXECUTOR owns one device: what is loaded on it and what runs now.
using executor_actor = caf::typed_actor<
  // Runs a batch when a lane is free; answers the sender with executed.
  caf::reacts_to<execute>,
  // The sender does not need one any more.
  caf::reacts_to<abandon>,
  // Private: a batch has run.
  caf::reacts_to<device_executed>,
  // Loads and warms up. When the sender ends the memory is given back; or
  // before, when it says so.
  caf::replies_to<load_stage>::with<stage_loaded>, caf::reacts_to<unload_stage>,
  // How busy the device is.
  caf::replies_to<get_load>::with<device_load>,
  // Changes the concurrency and threads of an instance.
  caf::reacts_to<tune_stage>,
  // Changes which batches run at once. Fails with bad_request when the device
  // has fewer lanes than at_once.
  caf::replies_to<share_device>::with<device_sharing>,
  // Changes the speed of the device, if it is emulated.
  caf::replies_to<slow_device>::with<ack>,
  // Private: a stage's weights have come; it is loaded, or lost; an emulated
  // device is due.
  caf::reacts_to<weights_arrived>, caf::reacts_to<device_loaded>,
  caf::reacts_to<device_lost>, caf::reacts_to<device_usable>,
  caf::reacts_to<tick>>;

// -- a node -------------------------------------------------------------------

/// The CACHE hands out bundles of this host.
using cache_actor = caf::typed_actor<
  // Opens and verifies a bundle, once for all who ask, wherever it is.
  caf::replies_to<fetch>::with<fetched>,
  // A replica's: it uses this, which a cache gave it that was lost.
  caf::reacts_to<content_here>,
  // For people: what there is. For its relay, which begins.
  caf::replies_to<get_cache>::with<cache_status>,
  caf::replies_to<get_contents>::with<contents_here>,
  // Private: what the reader found, and the keeper; what has come.
  caf::reacts_to<bundle_opened>, caf::reacts_to<disk_listing>,
  caf::reacts_to<kept_list>, caf::reacts_to<content_whole>,
  caf::reacts_to<content_kept>, caf::reacts_to<content_broken>,
  // The relay's: what no other host has. Private: looks at the host's memory.
  caf::reacts_to<pinned_contents>, caf::reacts_to<tick>,
  // Private: a content may have become superfluous.
  caf::reacts_to<content_unused>>;

/// Store watch to supervisor: an object store has these.
struct stored_models {
  std::string store;
  std::vector<model_info> models; ///< when it could be read last
  std::string error{};            ///< why it cannot be read now
  MILLRACE_FIELDS(stored_models, store, models, error)
};

/// What was found in the index of an object store; in-process only.
struct index_read {
  std::shared_ptr<const result<bundle_index>> content;
  MILLRACE_FIELDS(index_read, content)
};

/// A STORE WATCH knows what an object store has.
using store_watch_actor = caf::typed_actor<
  // A chain controller was lost, and has to be told again.
  caf::reacts_to<report_contents>,
  // For people: what there is.
  caf::replies_to<get_store>::with<store_status>,
  // Private: looks again; what the store said.
  caf::reacts_to<tick>, caf::reacts_to<index_read>>;

/// A RELAY gets contents from other hosts and passes them on.
using relay_actor = caf::typed_actor<
  // Its cache's: bring this bundle; these are on the disk; keep that no more;
  // what is there, for a cache that begins.
  caf::replies_to<fetch>::with<fetched>, caf::reacts_to<bundle_list>,
  caf::reacts_to<drop_content>,
  caf::replies_to<get_contents>::with<contents_here>,
  // A chain controller's: from whom; what to have in memory for others.
  caf::reacts_to<set_sources>, caf::reacts_to<pin_content>,
  caf::reacts_to<pinned_contents>,
  // They come and go, and are told what this host has.
  caf::reacts_to<peer_up>, caf::reacts_to<peer_down>,
  caf::reacts_to<report_contents>,
  // Private: what the bulk port tells.
  caf::reacts_to<content_begun>, caf::reacts_to<content_found>,
  caf::reacts_to<content_got>, caf::reacts_to<content_lost>,
  caf::reacts_to<content_broken>, caf::reacts_to<tick>>;

/// Supervisor to monitor: these are the node's executors and replicas now, by
/// device and by replica.
struct observe {
  std::map<std::string, executor_actor> executors;
  std::map<std::string, replica_actor> replicas;
  MILLRACE_FIELDS(observe, executors, replicas)
};

/// What a monitor's probe of GPUs tells it; in-process only.
struct gpus_read {
  std::shared_ptr<const gpu_readings> content;
  MILLRACE_FIELDS(gpus_read, content)
};

/// A MONITOR knows how busy its node and its host are.
using monitor_actor = caf::typed_actor<
  // Who there is to ask.
  caf::reacts_to<observe>,
  // Usage over the last second.
  caf::replies_to<get_load>::with<node_load>,
  // Private: asks again.
  caf::reacts_to<tick>, caf::reacts_to<gpus_read>>;

/// An INSPECTOR shows people its node as a program on a host.
using inspector_actor = caf::typed_actor<
  // Its clocks, the events it remembers, how its host is.
  caf::replies_to<get_clock>::with<clock_reading>,
  caf::replies_to<get_events>::with<event_list>,
  caf::replies_to<examine>::with<examination>,
  // Logs more or less from now on.
  caf::replies_to<set_log>::with<ack>,
  // Keeps what takes time on the way of requests, for a while; shows it.
  caf::replies_to<record_spans>::with<ack>,
  caf::replies_to<get_spans>::with<span_list>,
  // Private: that while is over.
  caf::reacts_to<tick>>;

/// The SUPERVISOR starts a node's actors, restarts those that crash, and keeps
/// what the controller wants of this node.
using supervisor_actor = caf::typed_actor<
  // Starts a replica, unless it is there.
  caf::reacts_to<deploy>,
  // Changes parameters of a running replica.
  caf::reacts_to<adjust>,
  // Changes which batches run at once on a device.
  caf::reacts_to<adjust_device>,
  // Changes the speed of an emulated device.
  caf::replies_to<slow_device>::with<ack>,
  // Drains and ends one.
  caf::reacts_to<evict>,
  // A replica's own word on how it is.
  caf::reacts_to<replica_status>,
  // What bundles the cache has.
  caf::reacts_to<bundle_list>,
  // What object stores have, of a controller's watches.
  caf::reacts_to<stored_models>,
  // Controllers among the peers get this node's inventory.
  caf::reacts_to<peer_up>, caf::reacts_to<peer_down>,
  // One of them has to be told again.
  caf::reacts_to<report_inventory>,
  // An executor's own word on its device.
  caf::reacts_to<device_condition>,
  // Has a model measured on a device of this node.
  caf::replies_to<measure>::with<measured>,
  // For people: this node and the others, and everything in this one.
  caf::replies_to<get_members>::with<member_list>,
  caf::replies_to<get_status>::with<node_status>,
  // Takes no new work, finishes, then ends the node.
  caf::replies_to<drain>::with<ack>,
  // Private: looks after restarts, bundles and the end of a drain.
  caf::reacts_to<tick>>;

/// A MEASURER finds out what a model costs on an idle device, once.
using measurer_actor =
  caf::typed_actor<caf::replies_to<measure>::with<measured>,
                   // The executor's results, and bad news.
                   caf::reacts_to<executed>, caf::reacts_to<stage_lost>>;

// -- the controller -----------------------------------------------------------

/// What a store tells the profiler.
struct stored_profiles {
  std::shared_ptr<result<std::vector<stored_row>>> rows;
  MILLRACE_FIELDS(stored_profiles, rows)
};
struct profile_written {
  std::shared_ptr<result<uint64_t>> version;
  MILLRACE_FIELDS(profile_written, version)
};

struct plans_made;

/// What was planned aside.
struct planned {
  std::shared_ptr<const plans_made> plans;
  MILLRACE_FIELDS(planned, plans)
};

/// The PROFILER knows what models cost.
using profiler_actor = caf::typed_actor<
  // Has one measured; keeps what was measured elsewhere; forgets it. All of it
  // is on disk then.
  caf::replies_to<measure_model>::with<ack>,
  caf::replies_to<keep_profile>::with<ack>,
  caf::replies_to<forget_profiles>::with<ack>,
  // What is known of models, and where to cut them.
  caf::replies_to<get_profiles>::with<profile_list>,
  caf::replies_to<get_plans>::with<plan_list>,
  // What nodes have; they come (with that) and go.
  caf::reacts_to<inventory>, caf::reacts_to<peer_up>, caf::reacts_to<peer_down>,
  // Private: rows as read at the start, or written; plans that were made aside;
  // asks monitors again.
  caf::reacts_to<stored_profiles>, caf::reacts_to<profile_written>,
  caf::reacts_to<planned>, caf::reacts_to<tick>>;

/// The REGISTRY keeps what was asked for, on disk.
using registry_actor = caf::typed_actor<
  // Answered once it is durable.
  caf::replies_to<set_model>::with<ack>,
  caf::replies_to<forget_model>::with<ack>,
  caf::replies_to<pin_model>::with<ack>,
  caf::replies_to<unpin_model>::with<ack>,
  caf::replies_to<set_scope>::with<ack>,
  // For people: what is registered and how far it is.
  caf::replies_to<get_models>::with<model_list>,
  // Private: rows as read at the start; a row was written; what the config
  // wants is tried again.
  caf::reacts_to<registry_rows>, caf::reacts_to<registry_written>,
  caf::reacts_to<tick>>;

/// The CHAIN CONTROLLER decides who relays what to whom.
using chain_controller_actor = caf::typed_actor<
  // What a host has and wants.
  caf::reacts_to<content_report>,
  // Hosts go.
  caf::reacts_to<peer_down>,
  // For people: who gets what from whom.
  caf::replies_to<get_chains>::with<chain_list>,
  // Private: plans.
  caf::reacts_to<tick>>;

/// Profiler to cluster state: a new version of the cost book.
struct costs_changed {
  std::shared_ptr<const cost_book> content;
  MILLRACE_FIELDS(costs_changed, content)
};

/// Placement to cluster state: nodes as they are now; null: a node has gone.
struct nodes_changed {
  std::map<std::string, std::shared_ptr<const node_state>> nodes;
  MILLRACE_FIELDS(nodes_changed, nodes)
};

/// Cluster state to placement and autoscaler.
struct snapshot_taken {
  std::shared_ptr<const cluster_snapshot> content;
  MILLRACE_FIELDS(snapshot_taken, content)
};

/// Provider to cluster state: pools and machines that have changed; null: a
/// machine is released.
struct machines_changed {
  std::map<std::string, std::shared_ptr<const pool_state>> pools;
  std::map<std::string, std::shared_ptr<const machine_state>> machines;
  MILLRACE_FIELDS(machines_changed, pools, machines)
};

/// CLUSTER STATE makes the snapshots that policies decide on.
using cluster_state_actor = caf::typed_actor<
  // The registry's: what operators and the config want.
  caf::reacts_to<registered>,
  // The placement's: what nodes have.
  caf::reacts_to<nodes_changed>,
  // A new cost book of the profiler.
  caf::reacts_to<costs_changed>,
  // The provider's: pools, and machines that come and go.
  caf::reacts_to<machines_changed>,
  // A gateway's: what clients ask for.
  caf::reacts_to<demand_report>,
  // A gateway's: requests wait for a model without a replica.
  caf::reacts_to<pressure>,
  // For people: the demand for each model.
  caf::replies_to<get_demand>::with<demand_list>,
  // Private: a snapshot is due.
  caf::reacts_to<tick>>;

/// Cluster state to placement, when it begins: send it all nodes, and changes.
struct observe_nodes {
  cluster_state_actor by;
  MILLRACE_FIELDS(observe_nodes, by)
};

/// Cluster state to provider, when it begins: send it all pools and machines,
/// and changes.
struct observe_machines {
  cluster_state_actor by;
  MILLRACE_FIELDS(observe_machines, by)
};

/// Placement to autoscaler: the proposal of a scope was rejected, because what
/// it was decided on has changed. The policy is asked again.
struct proposal_outdated {
  std::string scope;
  uint64_t snapshot = 0; ///< that it was decided on
  MILLRACE_FIELDS(proposal_outdated, scope, snapshot)
};

/// The AUTOSCALER asks the policy of each scope how many replicas of what
/// there shall be.
using autoscaler_actor = caf::typed_actor<
  // The cluster as it is now.
  caf::reacts_to<snapshot_taken>,
  // The placement rejects a proposal.
  caf::reacts_to<proposal_outdated>,
  // For people: how each model is scaled; what was decided, and why.
  caf::replies_to<get_scaling>::with<scaling_list>,
  caf::replies_to<get_decisions>::with<decision_list>,
  caf::replies_to<get_decision_records>::with<decision_records>,
  // Private: a policy is due.
  caf::reacts_to<tick>>;

/// Ledger store to provider: the result of a write.
struct machine_written {
  std::string machine;
  std::shared_ptr<result<uint64_t>> version;
  MILLRACE_FIELDS(machine_written, machine, version)
};

/// Source of machines to provider: all machines; one machine.
struct machines_listed {
  std::shared_ptr<const std::vector<sourced_machine>> machines;
  MILLRACE_FIELDS(machines_listed, machines)
};
struct machine_answered {
  sourced_machine machine;
  MILLRACE_FIELDS(machine_answered, machine)
};

/// The PROVIDER requests and releases machines, and keeps their ledger.
using provider_actor = caf::typed_actor<
  // A cluster state begins.
  caf::reacts_to<observe_machines>,
  // The cluster as it is now: which machines have joined, what runs on them.
  caf::reacts_to<snapshot_taken>,
  // How many machines a scope wants.
  caf::reacts_to<proposal>,
  // For people: the machines, and both bills.
  caf::replies_to<get_machines>::with<machine_list>,
  // Private: the ledger as read at the start; a row was written; what the
  // source has; something is due.
  caf::reacts_to<registry_rows>, caf::reacts_to<machine_written>,
  caf::reacts_to<machines_listed>, caf::reacts_to<machine_answered>,
  caf::reacts_to<tick>>;

struct placement_plan;

/// What a placement decided, until it has effect.
struct decided_plan {
  std::shared_ptr<const placement_plan> plan;
  MILLRACE_FIELDS(decided_plan, plan)
};

/// The PLACEMENT decides which devices get what: the one writer of desired
/// state.
using placement_actor = caf::typed_actor<
  // The cluster as it is now: the intent is what it takes from that.
  caf::reacts_to<snapshot_taken>,
  // What a scope wants.
  caf::reacts_to<proposal>,
  // What a node has.
  caf::reacts_to<inventory>,
  // Nodes come (their inventory follows) and go.
  caf::reacts_to<peer_up>, caf::reacts_to<peer_down>,
  // A cluster state begins.
  caf::reacts_to<observe_nodes>,
  // What is ready and starting, per model; how the latest starts went.
  caf::replies_to<get_models>::with<model_list>,
  caf::replies_to<get_starts>::with<start_list>,
  // Private: commits; what was decided has effect now.
  caf::reacts_to<tick>, caf::reacts_to<decided_plan>>;

} // namespace millrace

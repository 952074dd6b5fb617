// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The map of all actors: one typed interface per role, one comment per clause.
/// Actors reach each other through these handles, in the same process and
/// across nodes.

#include "actors/machine_source.hpp"
#include "actors/messages/contents.hpp"
#include "actors/messages/control.hpp"
#include "actors/messages/execution.hpp"
#include "actors/messages/requests.hpp"
#include "models/gpu/nvml.hpp"

namespace millrace {

// -- the request path ---------------------------------------------------------

/// The GATEWAY holds each client request until its one final answer.
using gateway_actor = caf::typed_actor<
  // A client's requests: admits each to its model's router, or refuses it.
  caf::reacts_to<client_requests>,
  // A client cancels a request.
  caf::reacts_to<client_cancel>,
  // A client disconnected.
  caf::reacts_to<client_left>,
  // A client requests the list of models.
  caf::reacts_to<client_describe>,
  // A replica accepts batches.
  caf::reacts_to<replica_ready>,
  // The limits of a replica have changed.
  caf::reacts_to<replica_tuned>,
  // A replica accepts no new batches.
  caf::reacts_to<replica_draining>,
  // A router completed admitted requests.
  caf::reacts_to<requests_completed>,
  // The attempts so far of a request that is retried or was cancelled.
  caf::reacts_to<request_track>,
  // A router returns queued requests: their version is no longer served.
  caf::reacts_to<requests_returned>,
  // Whether a router's replicas cover all layers of its model.
  caf::reacts_to<model_availability>,
  // The controller's list of models to serve.
  caf::reacts_to<wanted_models>,
  // The backlog of a router, for the next demand report.
  caf::reacts_to<backlog>,
  // A controller joined; it gets demand reports.
  caf::reacts_to<peer_up>,
  // A controller left.
  caf::reacts_to<peer_down>,
  // For operators: open requests and notable past ones.
  caf::replies_to<get_requests>::with<request_list>,
  // Refuses new requests, answers the admitted ones, then ends.
  caf::reacts_to<finish>,
  // Private: a deadline has passed.
  caf::reacts_to<tick>>;

/// The ROUTER holds one model's queue and gives batches to ready replicas.
using router_actor = caf::typed_actor<
  // Queues requests; completes them as overloaded when the queue is full.
  caf::reacts_to<route>,
  // The gateway answered a request: cancelled, or past its deadline.
  caf::reacts_to<cancel_request>,
  // Results of a batch; returns the replica's credit.
  caf::reacts_to<batch_done>,
  // The next stage accepted a batch.
  caf::reacts_to<batch_accepted>,
  // A replica holds the output of a batch until a next stage is free.
  caf::reacts_to<batch_ran>,
  // A replica no longer holds a batch.
  caf::reacts_to<batch_not_found>,
  // A replica lost its link to the next stage.
  caf::reacts_to<next_stage_unreachable>,
  // A replica of this model accepts batches.
  caf::reacts_to<replica_ready>,
  // The limits of a replica have changed.
  caf::reacts_to<replica_tuned>,
  // The operator changed the model's serving policy.
  caf::reacts_to<serving_policy>,
  // A replica accepts no new batches.
  caf::reacts_to<replica_draining>,
  // Returns queued requests to the gateway; if closed, later ones too.
  caf::reacts_to<drain_queue>,
  // Sends the backlog to the gateway.
  caf::reacts_to<get_backlog>,
  // For operators: the queue and the replicas.
  caf::replies_to<get_queue>::with<queue_status>,
  // For operators: the attempts of some requests.
  caf::replies_to<get_tracks>::with<track_list>,
  // Private: a deadline or the queue delay of the oldest request has passed.
  caf::reacts_to<tick>>;

/// A REPLICA is a loaded copy of a model, or of some layers, on one device.
using replica_actor = caf::typed_actor<
  // Runs a batch, then answers the router or forwards to the next stage.
  caf::reacts_to<run_batch>,
  // Names the next stage of a batch.
  caf::reacts_to<forward_batch>,
  // The router gives up a batch.
  caf::reacts_to<drop_batch>,
  // The next stage accepted a batch for which a receipt was requested.
  caf::reacts_to<batch_accepted>,
  // The executor's result.
  caf::reacts_to<execution_report>,
  // The executor lost the instance: ends after the batches in progress.
  caf::reacts_to<stage_lost>,
  // A peer joined; its gateway gets an announcement.
  caf::reacts_to<peer_up>,
  // A peer left.
  caf::reacts_to<peer_down>,
  // Load counters.
  caf::replies_to<get_load>::with<replica_load>,
  // Changes parameters without a reload.
  caf::reacts_to<adjust>,
  // The device has a new sharing.
  caf::reacts_to<share_device>,
  // Drains for all gateways but that of its own node.
  caf::reacts_to<finish_elsewhere>,
  // A gateway will send no more batches.
  caf::reacts_to<router_released>,
  // Drains, unloads and ends.
  caf::reacts_to<finish>,
  // Private: announces itself to a restarted gateway or cache.
  caf::reacts_to<tick>>;

/// An EXECUTOR owns one device: its loaded instances and running batches.
using executor_actor = caf::typed_actor<
  // Runs a batch when a lane is free; answers the sender with executed.
  caf::reacts_to<execution>,
  // The sender no longer needs a batch.
  caf::reacts_to<abandon>,
  // Private: a batch has run.
  caf::reacts_to<execution_report>,
  // Loads and warms up an instance. Unloads it when the sender ends.
  caf::replies_to<load_stage>::with<stage_loaded>,
  // Unloads an instance of the sender.
  caf::reacts_to<unload_stage>,
  // Load of the device.
  caf::replies_to<get_load>::with<device_load>,
  // Changes the concurrency and threads of an instance.
  caf::reacts_to<tune_stage>,
  // Changes which batches run at once. Fails with bad_request when the device
  // has fewer lanes than at_once.
  caf::replies_to<share_device>::with<device_sharing>,
  // Changes the speed of the device, if it is emulated.
  caf::replies_to<slow_device>::with<ack>,
  // Private: the weights of an instance arrived, or cannot be had.
  caf::reacts_to<weights_arrived>,
  // Private: an instance is loaded, or its load failed.
  caf::reacts_to<device_loaded>,
  // Private: the device lost an instance.
  caf::reacts_to<device_lost>,
  // Private: the device became usable or unusable.
  caf::reacts_to<device_usable>,
  // Private: an event of an emulated device is due, or the hang timeout.
  caf::reacts_to<tick>>;

// -- a node -------------------------------------------------------------------

/// The CACHE provides the bundles of this host.
using cache_actor = caf::typed_actor<
  // Opens and verifies a bundle, once for all callers; fetches it if absent.
  caf::replies_to<fetch>::with<fetched>,
  // A replica uses this content, which it got from an earlier cache.
  caf::reacts_to<content_here>,
  // For operators: the bundles of this host.
  caf::replies_to<get_cache>::with<cache_status>,
  // A started relay requests the contents of the cache.
  caf::replies_to<get_contents>::with<contents_here>,
  // Private: the reader opened a bundle, or failed.
  caf::reacts_to<bundle_opened>,
  // Private: the reader listed the bundle directory.
  caf::reacts_to<disk_listing>,
  // Private: the keeper listed the disk cache.
  caf::reacts_to<kept_list>,
  // Private: all chunks of a content have arrived.
  caf::reacts_to<content_whole>,
  // Private: the keeper wrote a content to the disk cache, or failed.
  caf::reacts_to<content_kept>,
  // A copy on the disk is corrupt.
  caf::reacts_to<content_broken>,
  // The relay forwards which contents must not be evicted.
  caf::reacts_to<pinned_contents>,
  // Private: checks the memory of the host.
  caf::reacts_to<tick>,
  // Private: a content may have no users left.
  caf::reacts_to<content_unused>>;

/// A STORE WATCH lists the contents of an object store.
using store_watch_actor = caf::typed_actor<
  // A restarted chain controller requests a report.
  caf::reacts_to<report_contents>,
  // For operators: the state of the store.
  caf::replies_to<get_store>::with<store_status>,
  // Private: reads the index again.
  caf::reacts_to<tick>,
  // Private: the index was read, or the read failed.
  caf::reacts_to<index_read>>;

/// A RELAY fetches contents from other hosts and relays them.
using relay_actor = caf::typed_actor<
  // The cache requests a bundle.
  caf::replies_to<fetch>::with<fetched>,
  // The cache lists the bundles on the disk.
  caf::reacts_to<bundle_list>,
  // The cache needs the memory of a content.
  caf::reacts_to<drop_content>,
  // A started cache requests the contents in memory.
  caf::replies_to<get_contents>::with<contents_here>,
  // The chain controller names the sources of a content.
  caf::reacts_to<set_sources>,
  // The chain controller has a content kept in memory for other hosts.
  caf::reacts_to<pin_content>,
  // The chain controller lists contents that this host must not evict.
  caf::reacts_to<pinned_contents>,
  // A peer joined; a controller gets content reports.
  caf::reacts_to<peer_up>,
  // A peer left.
  caf::reacts_to<peer_down>,
  // A restarted chain controller requests a report.
  caf::reacts_to<report_contents>,
  // Private: the head of a content arrived.
  caf::reacts_to<content_begun>,
  // Private: the layout of the weights is known, or an error.
  caf::reacts_to<content_found>,
  // Private: chunks of a content arrived.
  caf::reacts_to<content_got>,
  // Private: a source was lost.
  caf::reacts_to<content_lost>,
  // Private: a copy on the disk is corrupt.
  caf::reacts_to<content_broken>,
  // Private: a report is due.
  caf::reacts_to<tick>>;

/// Supervisor to monitor: the node's executors by device, and its replicas by
/// name.
struct observe {
  std::map<std::string, executor_actor> executors;
  std::map<std::string, replica_actor> replicas;
  MILLRACE_FIELDS(observe, executors, replicas)
};

/// GPU probe to monitor; in-process only.
struct gpus_read {
  std::shared_ptr<const gpu_readings> content;
  MILLRACE_FIELDS(gpus_read, content)
};

/// A MONITOR measures the load of its node and host.
using monitor_actor = caf::typed_actor<
  // Registers the executors and replicas to poll.
  caf::reacts_to<observe>,
  // Usage over the last second.
  caf::replies_to<get_load>::with<node_load>,
  // Private: polls again.
  caf::reacts_to<tick>,
  // Private: the GPU probe's readings.
  caf::reacts_to<gpus_read>>;

/// An INSPECTOR shows operators the clocks, events and spans of its node.
using inspector_actor = caf::typed_actor<
  // The node's clocks.
  caf::replies_to<get_clock>::with<clock_reading>,
  // The latest events.
  caf::replies_to<get_events>::with<event_list>,
  // Examines the host.
  caf::replies_to<examine>::with<examination>,
  // Changes the log level.
  caf::replies_to<set_log>::with<ack>,
  // Records spans of requests for a limited time.
  caf::replies_to<record_spans>::with<ack>,
  // The recorded spans.
  caf::replies_to<get_spans>::with<span_list>,
  // Private: the time of the recording is over.
  caf::reacts_to<tick>>;

/// The SUPERVISOR starts a node's actors, restarts those that crash, and
/// executes the controller's orders for this node.
using supervisor_actor = caf::typed_actor<
  // Starts a replica, unless it runs.
  caf::reacts_to<deploy>,
  // Changes parameters of a running replica.
  caf::reacts_to<adjust>,
  // Changes which batches run at once on a device.
  caf::reacts_to<adjust_device>,
  // Changes the speed of an emulated device.
  caf::replies_to<slow_device>::with<ack>,
  // Drains and ends a replica.
  caf::reacts_to<evict>,
  // State of a replica.
  caf::reacts_to<replica_status>,
  // The bundles of the cache.
  caf::reacts_to<bundle_list>,
  // The models of an object store, from its store watch.
  caf::reacts_to<stored_models>,
  // A peer joined; a controller gets this node's inventory.
  caf::reacts_to<peer_up>,
  // A peer left.
  caf::reacts_to<peer_down>,
  // A restarted placement requests the inventory.
  caf::reacts_to<report_inventory>,
  // Whether the device of an executor is usable.
  caf::reacts_to<device_condition>,
  // Has a model measured on a device of this node.
  caf::replies_to<measure>::with<measured>,
  // For operators: this node and its peers.
  caf::replies_to<get_members>::with<member_list>,
  // For operators: the devices, replicas and actors of this node.
  caf::replies_to<get_status>::with<node_status>,
  // Accepts no new work, finishes, then ends the node.
  caf::replies_to<drain>::with<ack>,
  // Private: checks restarts, bundles and the end of a drain.
  caf::reacts_to<tick>>;

/// A MEASURER measures the costs of one model on an idle device, once.
using measurer_actor = caf::typed_actor<
  // Measures a model.
  caf::replies_to<measure>::with<measured>,
  // The executor's result.
  caf::reacts_to<execution_report>,
  // The executor lost the instance.
  caf::reacts_to<stage_lost>>;

// -- the controller -----------------------------------------------------------

/// The PROFILER keeps the cost profiles of models.
using profiler_actor = caf::typed_actor<
  // Has a model measured. Answers when the profile is on disk.
  caf::replies_to<measure_model>::with<ack>,
  // Imports a profile. Answers when it is on disk.
  caf::replies_to<keep_profile>::with<ack>,
  // Deletes profiles. Answers when they are gone from the disk.
  caf::replies_to<forget_profiles>::with<ack>,
  // The profiles of models.
  caf::replies_to<get_profiles>::with<profile_list>,
  // The cuts of models into parts.
  caf::replies_to<get_plans>::with<plan_list>,
  // The devices and bundles of a node.
  caf::reacts_to<inventory>,
  // A peer left.
  caf::reacts_to<peer_down>,
  // Private: the rows read at the start.
  caf::reacts_to<rows_read>,
  // Private: a row was written.
  caf::reacts_to<row_written>,
  // Private: plans computed in another thread.
  caf::reacts_to<planned>,
  // Private: polls the monitors.
  caf::reacts_to<tick>>;

/// The REGISTRY keeps operators' requests for models and scopes on disk.
using registry_actor = caf::typed_actor<
  // Registers or changes a model. Answers when it is durable.
  caf::replies_to<set_model>::with<ack>,
  // Deletes a model. Answers when it is durable.
  caf::replies_to<forget_model>::with<ack>,
  // Fixes the groups of a model. Answers when it is durable.
  caf::replies_to<pin_model>::with<ack>,
  // Ends a pin. Answers when it is durable.
  caf::replies_to<unpin_model>::with<ack>,
  // Changes the settings of a scope. Answers when it is durable.
  caf::replies_to<set_scope>::with<ack>,
  // For operators: the registered models and their replica counts.
  caf::replies_to<get_models>::with<model_list>,
  // Private: the rows read at the start.
  caf::reacts_to<rows_read>,
  // Private: a row was written.
  caf::reacts_to<row_written>,
  // Private: a pin ends, or failed writes are retried.
  caf::reacts_to<tick>>;

/// The CHAIN CONTROLLER names the sources of each content for each host.
using chain_controller_actor = caf::typed_actor<
  // The contents that a host has and wants.
  caf::reacts_to<content_report>,
  // A host left.
  caf::reacts_to<peer_down>,
  // For operators: the chains and the complete copies.
  caf::replies_to<get_chains>::with<chain_list>,
  // Private: a plan is due.
  caf::reacts_to<tick>>;

/// CLUSTER STATE makes the snapshots that policies decide on.
using cluster_state_actor = caf::typed_actor<
  // The registry's models and scopes.
  caf::reacts_to<registered>,
  // The placement's nodes that changed.
  caf::reacts_to<nodes_changed>,
  // A new cost book of the profiler.
  caf::reacts_to<costs_changed>,
  // The provider's pools and machines that changed.
  caf::reacts_to<machines_changed>,
  // The demand at a gateway.
  caf::reacts_to<demand_report>,
  // Requests wait at a gateway for a model without a ready replica.
  caf::reacts_to<pressure>,
  // For operators: the demand for each model.
  caf::replies_to<get_demand>::with<demand_list>,
  // Private: a snapshot is due.
  caf::reacts_to<tick>>;

/// Cluster state to placement, at its start: requests all nodes, then changes.
struct observe_nodes {
  cluster_state_actor by;
  MILLRACE_FIELDS(observe_nodes, by)
};

/// Cluster state to provider, at its start: requests all pools and machines,
/// then changes.
struct observe_machines {
  cluster_state_actor by;
  MILLRACE_FIELDS(observe_machines, by)
};

/// The AUTOSCALER has the policy of each scope decide the replica counts.
using autoscaler_actor = caf::typed_actor<
  // A new snapshot of the cluster.
  caf::reacts_to<snapshot_taken>,
  // The placement rejected a proposal.
  caf::reacts_to<proposal_outdated>,
  // For operators: the scaling of each model.
  caf::replies_to<get_scaling>::with<scaling_list>,
  // For operators: the latest decisions and their reasons.
  caf::replies_to<get_decisions>::with<decision_list>,
  // For operators: the inputs of decisions, for replay.
  caf::replies_to<get_decision_records>::with<decision_records>,
  // Private: a policy is due.
  caf::reacts_to<tick>>;

/// Source of machines to provider: all machines.
struct machines_listed {
  std::shared_ptr<const std::vector<sourced_machine>> machines;
  MILLRACE_FIELDS(machines_listed, machines)
};

/// Source of machines to provider: the answer for one machine.
struct machine_answered {
  sourced_machine machine;
  MILLRACE_FIELDS(machine_answered, machine)
};

/// The PROVIDER requests and releases machines, and keeps their ledger.
using provider_actor = caf::typed_actor<
  // A started cluster state requests all pools and machines.
  caf::reacts_to<observe_machines>,
  // A new snapshot: the nodes that joined and their replicas.
  caf::reacts_to<snapshot_taken>,
  // The machines that a scope wants.
  caf::reacts_to<proposal>,
  // For operators: the machines and both bills.
  caf::replies_to<get_machines>::with<machine_list>,
  // Private: the ledger read at the start.
  caf::reacts_to<rows_read>,
  // Private: a row of the ledger was written.
  caf::reacts_to<machine_written>,
  // Private: the source listed its machines.
  caf::reacts_to<machines_listed>,
  // Private: the source answered for one machine.
  caf::reacts_to<machine_answered>,
  // Private: a retry, a release or a listing is due.
  caf::reacts_to<tick>>;

/// The PLACEMENT assigns replicas to devices: the one writer of desired state.
using placement_actor = caf::typed_actor<
  // A new snapshot: the registered models and scopes.
  caf::reacts_to<snapshot_taken>,
  // The replica groups that a scope wants.
  caf::reacts_to<proposal>,
  // The devices, bundles and replicas of a node.
  caf::reacts_to<inventory>,
  // A peer left.
  caf::reacts_to<peer_down>,
  // A started cluster state requests all nodes.
  caf::reacts_to<observe_nodes>,
  // Ready and starting replicas of each model.
  caf::replies_to<get_models>::with<model_list>,
  // The latest starts of replicas.
  caf::replies_to<get_starts>::with<start_list>,
  // Private: commits the desired state.
  caf::reacts_to<tick>,
  // Private: the decision time of a plan is over; the plan takes effect.
  caf::reacts_to<decided_plan>>;

} // namespace millrace

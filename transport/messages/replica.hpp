// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <caf/actor_control_block.hpp>

#include "models/batching.hpp"
#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/time.hpp"
#include "transport/messages/model.hpp"

namespace millrace {

/// How much a replica takes at a time from each gateway.
struct replica_limits {
  uint64_t batch = 1;    ///< rows of several requests in one batch
  uint64_t rows_max = 0; ///< of one request; 0: no limit
  uint32_t credit = 0;   ///< batches, running or waiting
  double weight = 1;     ///< as in tunables
  MILLRACE_FIELDS(replica_limits, batch, rows_max, credit, weight)
};

/// Replica to gateways, when it is ready or meets a new gateway. The replica
/// takes `limits.credit` batches until it gives credit back.
struct replica_ready {
  std::string name; ///< "digits-small.2.1": model, version, number
  std::string node;
  std::string device;
  model_info info;
  layer_range layers;               ///< that it has
  std::vector<std::string> tenants; ///< as in model_settings
  serving_policy policy;
  replica_limits limits;
  /// Counts its announcements: what was promised with an earlier one to the
  /// same gateway is void.
  uint64_t promise = 0;
  bool confined = false; ///< as in load_report: it ends no node
  caf::strong_actor_ptr handle;
  MILLRACE_FIELDS(replica_ready, name, node, device, info, layers, tenants,
                  policy, limits, promise, confined, handle)
};

/// Replica to gateways: its limits have changed.
struct replica_tuned {
  caf::strong_actor_ptr handle;
  replica_limits limits;
  MILLRACE_FIELDS(replica_tuned, handle, limits)
};

/// Replica to gateways: no new batches, please; running ones will be answered.
/// Names do not tell replicas apart: a node that was cut off may come back with
/// one whose name was given again.
struct replica_draining {
  caf::strong_actor_ptr handle;
  bool lost = false; ///< what it had loaded: it runs nothing more at all
  MILLRACE_FIELDS(replica_draining, handle, lost)
};

/// Gateway or router to a draining replica: nothing more will come from here.
/// To one of a part once no batch is on its way that may need it.
struct router_released {
  std::string node; ///< the gateway's
  MILLRACE_FIELDS(router_released, node)
};

/// One request in a batch.
struct batch_item {
  deadline due;
  tensor_list inputs;
  MILLRACE_FIELDS(batch_item, due, inputs)
};

/// Who runs a batch next.
struct next_stage {
  std::string replica;
  uint64_t promise = 0;         ///< by which it has a credit for it
  caf::strong_actor_ptr handle; ///< null where its node is out of sight
  MILLRACE_FIELDS(next_stage, replica, promise, handle)
};

/// What became of a batch at one stage of several.
struct stage_visit {
  std::string replica;
  microseconds queue{0};
  microseconds execute{0};
  microseconds held{0};         ///< until the next stage was known
  layer_range layers{};         ///< of the replica
  microseconds interference{0}; ///< of execute, as in infer_reply
  MILLRACE_FIELDS(stage_visit, replica, queue, execute, held, layers,
                  interference)
};

/// What a batch takes along that passes through several stages.
struct passage {
  caf::strong_actor_ptr router; ///< whose batch it is
  std::vector<uint64_t> rows;   ///< of each request
  std::optional<next_stage> next;
  std::vector<stage_visit> visits; ///< of the stages before
  uint64_t promise = 0; ///< the receiver's, where it is from a stage before
  bool receipt = false; ///< that stage, too, is to be told that it has come
  deadline soonest;     ///< of its requests
  MILLRACE_FIELDS(passage, router, rows, next, visits, promise, receipt,
                  soonest)
};

/// Router to replica: run these together. Costs one credit. From stage to
/// stage, too: then the one item has what all requests have become so far.
struct run_batch {
  uint64_t id = 0; ///< the router's
  std::vector<batch_item> items;
  uint64_t trace = 0; ///< its spans' name for it; 0: nobody records them
  std::optional<passage> through;
  MILLRACE_FIELDS(run_batch, id, items, trace, through)
};

/// Replica to router: I have this batch, from the stage before me, and that has
/// its credit back. To that stage, too, where it wants to know.
struct batch_accepted {
  uint64_t id = 0;
  MILLRACE_FIELDS(batch_accepted, id)
};

/// Replica to router: a batch that has no next stage yet has run. The router
/// gives the replica's credit back while the replica may hold more output.
struct batch_ran {
  uint64_t id = 0;
  uint64_t bytes = 0; ///< of the output that the replica holds
  MILLRACE_FIELDS(batch_ran, id, bytes)
};

/// Router to replica: once it has run, this batch goes to that one.
struct forward_batch {
  uint64_t id = 0;
  next_stage to;
  MILLRACE_FIELDS(forward_batch, id, to)
};

/// Router to replica: give this batch up. Answered by batch_done with
/// cancelled, unless the answer to it is on its way, or by batch_not_found.
struct drop_batch {
  uint64_t id = 0;
  MILLRACE_FIELDS(drop_batch, id)
};

/// Replica to router, to a forward_batch or drop_batch: it has gone on already.
struct batch_not_found {
  uint64_t id = 0;
  MILLRACE_FIELDS(batch_not_found, id)
};

/// Replica to router: what was to go from me to that one may be lost.
struct next_stage_unreachable {
  std::string replica;
  MILLRACE_FIELDS(next_stage_unreachable, replica)
};

/// Replica to router: the results, and the credit back.
struct batch_done {
  uint64_t id = 0;
  /// poison: the model's process ended over it; unavailable: it was not run;
  /// cancelled: it was given up, and is not to blame for that.
  ec status = ec::internal;
  std::string text;
  std::vector<tensor_list> outputs; ///< per request, with status ok
  /// With too_large: the size of the outputs, which would have gone to another
  /// node, relative to what one message may have. 0: the model's own error.
  double share_of_message = 0;
  microseconds queue{0}; ///< in the replica
  microseconds execute{0};
  uint32_t credit = 0;
  std::vector<stage_visit> visits; ///< of the stages before
  microseconds interference{0};    ///< of execute, as in infer_reply
  MILLRACE_FIELDS(batch_done, id, status, text, outputs, share_of_message,
                  queue, execute, credit, visits, interference)
};

// -- between a replica and its device's executor ------------------------------

struct stage_loaded {
  uint64_t instance = 0;
  uint64_t memory = 0; ///< bytes
  microseconds load{0};
  microseconds warm_up{0};
  bool confined = false; ///< as in load_report
  microseconds came{0};  ///< what its weights took to come
  MILLRACE_FIELDS(stage_loaded, instance, memory, load, warm_up, confined, came)
};

/// Run a batch on a loaded stage.
struct execute {
  uint64_t id = 0; ///< the replica's
  uint64_t instance = 0;
  double share = 0;
  int32_t priority = 0;
  deadline until;   ///< when nobody needs the results any more
  deadline soonest; ///< when the first of its requests does not
  std::vector<tensor_list> items;
  std::vector<uint64_t> rows; ///< as in passage
  uint64_t trace = 0;         ///< as in run_batch
  bool meters_memory = false; ///< which takes longer
  MILLRACE_FIELDS(execute, id, instance, share, priority, until, soonest, items,
                  rows, trace, meters_memory)
};

/// Executor to replica: what you had loaded is lost. What you gave me fails:
/// with poison or cancelled what ran then, with unavailable what did not.
struct stage_lost {
  uint64_t instance = 0;
  std::string text;
  bool excused = false; ///< as in replica_status
  MILLRACE_FIELDS(stage_lost, instance, text, excused)
};

struct executed {
  uint64_t id = 0;
  ec status = ec::internal;
  std::string text;
  std::vector<tensor_list> outputs;
  microseconds queue{0}; ///< in the executor and the device
  microseconds run{0};
  uint64_t peak = 0; ///< bytes that it allocated, if they were metered
  microseconds interference{0}; ///< of run, as in infer_reply
  MILLRACE_FIELDS(executed, id, status, text, outputs, queue, run, peak,
                  interference)
};

} // namespace millrace

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

/// Limits of a replica, for each gateway.
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
  layer_range layers;               ///< of the replica
  std::vector<std::string> tenants; ///< as in model_settings
  serving_policy policy;
  replica_limits limits;
  /// Counts its announcements: credit from an earlier announcement to the same
  /// gateway is void.
  uint64_t promise = 0;
  /// As in load_report: its failure does not end the node.
  bool confined = false;
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

/// Replica to gateways: send no new batches; running ones will be answered. The
/// handle identifies the replica. Its name does not: a node that was cut off
/// may return with a replica whose name was assigned again.
struct replica_draining {
  caf::strong_actor_ptr handle;
  bool lost = false; ///< the loaded model is lost: no batch runs any longer
  MILLRACE_FIELDS(replica_draining, handle, lost)
};

/// Gateway or router to a draining replica: no more batches will come. To a
/// replica of a part once no batch on its way may need it.
struct router_released {
  std::string node; ///< of the gateway
  MILLRACE_FIELDS(router_released, node)
};

/// One request in a batch.
struct batch_item {
  deadline due;
  tensor_list inputs;
  MILLRACE_FIELDS(batch_item, due, inputs)
};

/// The replica that runs a batch next.
struct next_stage {
  std::string replica;
  uint64_t promise = 0; ///< announcement that granted the credit for the batch
  caf::strong_actor_ptr handle; ///< null: its node has no link
  MILLRACE_FIELDS(next_stage, replica, promise, handle)
};

/// Times of a batch at one of several stages.
struct stage_visit {
  std::string replica;
  microseconds queue{0};
  microseconds execute{0};
  microseconds held{0}; ///< until the next stage was known, after `execute`
  layer_range layers{}; ///< of the replica
  microseconds interference{0}; ///< of execute, as in infer_reply
  MILLRACE_FIELDS(stage_visit, replica, queue, execute, held, layers,
                  interference)
};

/// State that a batch carries through several stages.
struct passage {
  caf::strong_actor_ptr router; ///< owner of the batch
  std::vector<uint64_t> rows;   ///< of each request
  std::optional<next_stage> next;
  std::vector<stage_visit> visits; ///< of earlier stages
  /// Of the receiver, if the batch comes from another stage.
  uint64_t promise = 0;
  bool receipt = false; ///< send batch_accepted to that stage, too
  deadline soonest;     ///< earliest deadline of its requests
  MILLRACE_FIELDS(passage, router, rows, next, visits, promise, receipt,
                  soonest)
};

/// Router to replica: run these requests as one batch. Costs one credit. Also
/// from stage to stage: the single item then holds the intermediate tensors of
/// all requests.
struct run_batch {
  uint64_t id = 0; ///< assigned by the router
  std::vector<batch_item> items;
  uint64_t trace = 0; ///< id of the batch in its spans; 0: not recorded
  std::optional<passage> through;
  MILLRACE_FIELDS(run_batch, id, items, trace, through)
};

/// Replica to router: the batch has arrived from the stage before, which has
/// its credit back. Also to that stage, if `receipt` is set.
struct batch_accepted {
  uint64_t id = 0;
  MILLRACE_FIELDS(batch_accepted, id)
};

/// Replica to router, if policy.held is above 0: a batch without a next stage
/// has run. The router returns the credit while the replica may hold more
/// output.
struct batch_ran {
  uint64_t id = 0;
  uint64_t bytes = 0; ///< of the output that the replica holds
  MILLRACE_FIELDS(batch_ran, id, bytes)
};

/// Router to replica: the next stage of this batch.
struct forward_batch {
  uint64_t id = 0;
  next_stage to;
  MILLRACE_FIELDS(forward_batch, id, to)
};

/// Router to replica: drop this batch. Answered by batch_done with cancelled,
/// unless its answer is on its way, or by batch_not_found.
struct drop_batch {
  uint64_t id = 0;
  MILLRACE_FIELDS(drop_batch, id)
};

/// Replica to router, after forward_batch or drop_batch: the batch has left.
struct batch_not_found {
  uint64_t id = 0;
  MILLRACE_FIELDS(batch_not_found, id)
};

/// Replica to router: batches on their way from this replica to that one may be
/// lost.
struct next_stage_unreachable {
  std::string replica;
  MILLRACE_FIELDS(next_stage_unreachable, replica)
};

/// Replica to router: the results of a batch, and its credit.
struct batch_done {
  uint64_t id = 0;
  /// poison: the batch ended the model's process. unavailable: not run.
  /// cancelled: dropped, through no fault of the batch.
  ec status = ec::internal;
  std::string text;
  std::vector<tensor_list> outputs; ///< per request, with status ok
  /// With too_large: size of the outputs relative to the limit of a message to
  /// another node. 0: the model itself reported the error.
  double share_of_message = 0;
  microseconds queue{0}; ///< in the replica
  microseconds execute{0};
  uint32_t credit = 0;
  std::vector<stage_visit> visits; ///< of earlier stages
  microseconds interference{0};    ///< of execute, as in infer_reply
  MILLRACE_FIELDS(batch_done, id, status, text, outputs, share_of_message,
                  queue, execute, credit, visits, interference)
};

} // namespace millrace

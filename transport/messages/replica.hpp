// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <caf/actor_control_block.hpp>

#include "models/batching.hpp"
#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/time.hpp"
#include "transport/messages/model.hpp"

namespace millrace {

/// Replica to gateways, when it is ready or meets a new gateway: who serves
/// what. The sender takes `credit` batches until it says more.
struct replica_ready {
  std::string name; ///< "digits-small.2.1": model, version, number
  std::string node;
  std::string device;
  model_info info;
  std::vector<std::string> tenants; ///< as in model_settings
  serving_policy policy;
  uint32_t credit = 0;
  caf::strong_actor_ptr handle;
  MILLRACE_FIELDS(replica_ready, name, node, device, info, tenants, policy,
                  credit, handle)
};

/// Replica to gateways: no new batches, please; running ones will be answered.
/// Names do not tell replicas apart: a node that was cut off may come back with
/// one whose name was given again.
struct replica_draining {
  caf::strong_actor_ptr handle;
  MILLRACE_FIELDS(replica_draining, handle)
};

/// One request in a batch.
struct batch_item {
  deadline due;
  tensor_list inputs;
  MILLRACE_FIELDS(batch_item, due, inputs)
};

/// Router to replica: run these together. Costs one credit.
struct run_batch {
  uint64_t id = 0; ///< the router's
  std::vector<batch_item> items;
  /// Not to be put together with other batches on the way.
  bool never_merge = false;
  uint64_t trace = 0; ///< its spans' name for it; 0: nobody records them
  MILLRACE_FIELDS(run_batch, id, items, never_merge, trace)
};

/// Replica to router: the results, and the credit back.
struct batch_done {
  uint64_t id = 0;
  /// poison: the model's process ended while it ran this; unavailable: it was
  /// not run.
  ec status = ec::internal;
  std::string text;
  std::vector<tensor_list> outputs; ///< per request, with status ok
  microseconds queue{0};            ///< in the replica
  microseconds execute{0};
  uint32_t credit = 0;
  MILLRACE_FIELDS(batch_done, id, status, text, outputs, queue, execute, credit)
};

// -- between a replica and its device's executor ------------------------------

struct stage_loaded {
  uint64_t instance = 0;
  uint64_t memory = 0; ///< bytes
  microseconds load{0};
  microseconds warm_up{0};
  MILLRACE_FIELDS(stage_loaded, instance, memory, load, warm_up)
};

/// Run a batch on a loaded stage.
struct execute {
  uint64_t id = 0; ///< the replica's
  uint64_t instance = 0;
  double share = 0;
  int32_t priority = 0;
  deadline until; ///< when nobody needs the results any more
  std::vector<tensor_list> items;
  uint64_t trace = 0; ///< as in run_batch
  MILLRACE_FIELDS(execute, id, instance, share, priority, until, items, trace)
};

/// Executor to replica: what you had loaded is lost. What you gave me fails:
/// with poison what ran then, with unavailable what did not.
struct stage_lost {
  uint64_t instance = 0;
  std::string text;
  MILLRACE_FIELDS(stage_lost, instance, text)
};

struct executed {
  uint64_t id = 0;
  ec status = ec::internal;
  std::string text;
  std::vector<tensor_list> outputs;
  microseconds queue{0}; ///< in the executor and the device
  microseconds run{0};
  MILLRACE_FIELDS(executed, id, status, text, outputs, queue, run)
};

} // namespace millrace

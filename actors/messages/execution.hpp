// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Messages between a replica, the executor of its device and the device, in
/// one process.

#include <memory>
#include <string>

#include "models/bundle.hpp"
#include "models/device/device.hpp"
#include "runtime/actor.hpp"

/// A replica sends its executor an execution, and receives an execution_report,
/// which the executor received from the device.
template <>
struct caf::allowed_unsafe_message_type<millrace::execution> : std::true_type {
};
template <>
struct caf::allowed_unsafe_message_type<millrace::execution_report>
  : std::true_type {};

namespace millrace {

/// Replica to executor: load layers [first_layer, last_layer) of a bundle, and
/// answer when they are ready.
struct load_stage {
  uint64_t instance = 0;
  std::shared_ptr<const bundle> content;
  uint64_t first_layer = 0;
  uint64_t last_layer = 0;
  uint64_t max_batch = 1;
  uint64_t threads = 1;
  double share = 0; ///< as in load_request
  bool trusted = false;
  uint64_t extends_replica = 0; ///< as in load_request
  bool skip_warm_up = false;    ///< as in load_request
  uint32_t concurrency = 0;     ///< most batches at once; 0: no own limit
  MILLRACE_FIELDS(load_stage, instance, content, first_layer, last_layer,
                  max_batch, threads, share, trusted, extends_replica,
                  skip_warm_up, concurrency)
};

struct stage_loaded {
  uint64_t instance = 0;
  uint64_t memory = 0; ///< bytes
  microseconds load{0};
  microseconds warm_up{0};
  bool confined = false; ///< as in load_report
  microseconds came{0};  ///< until its weights had arrived
  MILLRACE_FIELDS(stage_loaded, instance, memory, load, warm_up, confined, came)
};

/// To an executor: changes a loaded instance without a reload. Ignored for an
/// unknown instance.
struct tune_stage {
  uint64_t instance = 0;
  uint32_t concurrency = 0; ///< as in load_stage
  uint32_t threads = 0;     ///< for its next executions; 0: as before
  MILLRACE_FIELDS(tune_stage, instance, concurrency, threads)
};

/// To an executor: changes the sharing of the device. Running batches are not
/// affected. The answer is the sharing in force.
struct share_device {
  device_sharing sharing;
  MILLRACE_FIELDS(share_device, sharing)
};

struct unload_stage {
  uint64_t instance = 0;
  MILLRACE_FIELDS(unload_stage, instance)
};

/// Replica to executor: the result of a batch is no longer needed. The executor
/// still answers.
struct abandon {
  uint64_t id = 0; ///< the replica's id of the batch
  MILLRACE_FIELDS(abandon, id)
};

/// Executor to replica: a loaded stage is lost. Its running batches fail with
/// poison or cancelled, its waiting ones with unavailable.
struct stage_lost {
  uint64_t instance = 0;
  std::string text;
  bool excused = false; ///< as in replica_status
  MILLRACE_FIELDS(stage_lost, instance, text, excused)
};

/// To an executor: the weights of an instance have arrived, or cannot be had.
struct weights_arrived {
  uint64_t instance = 0;
  std::shared_ptr<const error> failure; ///< null: they have arrived
  MILLRACE_FIELDS(weights_arrived, instance, failure)
};

/// Device to executor: an instance is loaded, or its load failed.
struct device_loaded {
  uint64_t instance = 0;
  std::shared_ptr<result<load_report>> report;
  MILLRACE_FIELDS(device_loaded, instance, report)
};

/// Device to executor: the device lost an instance.
struct device_lost {
  uint64_t instance = 0;
  std::shared_ptr<const error> why;
  MILLRACE_FIELDS(device_lost, instance, why)
};

/// Device to executor: the device became usable or unusable.
struct device_usable {
  std::shared_ptr<const error> why_not; ///< null: usable
  MILLRACE_FIELDS(device_usable, why_not)
};

/// Executor to supervisor: whether its device is usable.
struct device_condition {
  std::string device;
  std::string trouble; ///< why nothing can run; empty: usable
  MILLRACE_FIELDS(device_condition, device, trouble)
};

} // namespace millrace

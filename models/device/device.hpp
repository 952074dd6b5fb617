// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "models/backend/backend.hpp"
#include "models/device/device_info.hpp"
#include "runtime/time.hpp"
#include "runtime/units.hpp"

namespace millrace {

/// A loaded copy of a model's layers on one device.
using instance_id = uint64_t;

struct load_request {
  instance_id instance = 0;
  std::shared_ptr<const bundle> content;
  size_t first_layer = 0;
  size_t last_layer = 0; ///< one past the last
  size_t max_batch = 1;  ///< rows of the warm-up
  uint32_t threads = 1;  ///< of one execution
  double share = 0;      ///< of a GPU, 0 to 1; 0: the whole GPU
  bool trusted = false;  ///< trusted code: its operators are not checked
  /// The replica loads the layers of this one, which they share, and more
  /// layers, at low priority. 0: it extends no replica.
  instance_id extends_replica = 0;
  /// Ready as soon as it is loaded, because no other replica serves these
  /// layers: the first batch is its warm-up. The rest of the warm-up runs once,
  /// when no lane has work; the replica stays if that fails. No effect on a
  /// GPU: the memory of a pass has to be known before other replicas are placed
  /// there.
  bool skip_warm_up = false;
  /// The weights are still arriving: they are not read before on_arrival.
  bool arriving = false;
};

struct load_report {
  byte_count memory; ///< with memory shared with other replicas
  nanoseconds load{0};
  nanoseconds warm_up{0};
  bool confined = false; ///< sandboxed: a crash ends only its own process
};

/// A batch to run.
struct execution {
  uint64_t id = 0;
  instance_id instance = 0;
  double share = 0; ///< of the device, 0 to 1; 0: the whole device
  int priority = 0;
  /// Deadline: a run that can be stopped is stopped then.
  timestamp until = far_future;
  /// Inputs: a list for each request, or one joined list for all, as the stage
  /// before returned it.
  std::vector<tensor_list> items;
  /// For a batch that passes through several stages: the rows of each request.
  /// All stages but the last return one list for all requests.
  std::vector<uint64_t> rows;
  bool meters_memory = false; ///< measures `peak`; the run takes longer
  /// Requested when no request of the batch waits for its results. Then the
  /// batch is not started; a run that can be stopped is stopped once that costs
  /// less than the delay of other work.
  std::stop_token unwanted{};
  /// The earliest deadline of its requests. A run of several requests that
  /// seems endless is stopped after half of the time until then. The other half
  /// is left to run the requests one by one.
  timestamp soonest = far_future;
  uint64_t trace = 0; ///< as in run_batch

  size_t requests() const { return std::max(items.size(), rows.size()); }
};

/// The error of a batch that need not be started; nothing: it has to run.
inline std::optional<error> in_vain(const execution& batch, timestamp now) {
  if (batch.unwanted.stop_requested())
    return error{ec::cancelled, "no request waits for it"};
  if (now >= batch.until)
    return error{ec::deadline_exceeded, "waited too long for the device"};
  return std::nullopt;
}

struct execution_report {
  uint64_t id = 0;
  uint32_t lane = 0;
  /// Per request, or one for all. Fails with poison when this batch ended the
  /// instance's process, cancelled when another batch did, unavailable when the
  /// instance was lost before the batch started.
  result<std::vector<tensor_list>> outputs = std::vector<tensor_list>{};
  timestamp started;
  timestamp ended;
  /// Highest number of bytes of tensors allocated at once, with the outputs; 0
  /// if not measured.
  uint64_t peak = 0;
  /// Time that the batch would have taken alone on the device; nothing:
  /// unknown.
  std::optional<nanoseconds> solo{};
  // Set by the executor:
  microseconds queue{0};        ///< wait in the executor and the device
  microseconds interference{0}; ///< part of the run, as in infer_reply

  bool ok() const { return static_cast<bool>(outputs); }
  microseconds run() const { return to_us(ended - started); }
};

/// Receives the completions of a device; called on any thread.
class device_listener {
public:
  virtual ~device_listener() = default;
  virtual void on_loaded(instance_id instance, result<load_report> report) = 0;
  /// A loaded instance is lost and has to be unloaded; its batches fail after
  /// this call. The code is deadline_exceeded if the process was ended for a
  /// run that took too long, cancelled if the instance is not known to be the
  /// cause (the template ended too, or others shared the process), else
  /// unavailable.
  virtual void on_lost(instance_id instance, error why) = 0;
  virtual void on_executed(execution_report report) = 0;
  /// The device can run nothing, whatever is loaded: all instances are lost, as
  /// in on_lost. On success it can again.
  virtual void on_usable(result<void> outcome) { static_cast<void>(outcome); }
};

/// A device that runs models. Commands return soon and complete through the
/// listener, which may be called before they return. Commands come from one
/// thread at a time. A device that lives on the actor clock instead of a thread
/// returns its next call time from next_due.
class device {
public:
  virtual ~device() = default;

  /// Loads and warms up, unless skip_warm_up is set; completes with on_loaded.
  virtual void load(load_request request, timestamp now) = 0;

  /// The arriving weights are present now, or never will be.
  virtual void on_arrival(instance_id instance, result<void> there,
                          timestamp now) = 0;

  /// Frees the memory after the last run; runs that can be stopped are stopped.
  virtual void unload(instance_id instance) = 0;

  /// Runs a batch; completes with on_executed. Up to one batch per lane runs at
  /// once; waiting batches start in the order of calls, on the first free lane.
  virtual void execute(execution batch, timestamp now) = 0;

  /// Sets the threads of later executions of an instance, where the device runs
  /// them in threads. No effect on an unknown instance.
  virtual void set_threads(instance_id id, uint32_t threads) {
    static_cast<void>(id);
    static_cast<void>(threads);
  }

  /// Multiplies all times of an emulated device from now on. False: the device
  /// is not emulated.
  virtual bool slow_down(double factor, timestamp now) {
    static_cast<void>(factor);
    static_cast<void>(now);
    return false;
  }

  /// When advance() has to be called; never for devices with threads.
  virtual timestamp next_due() const { return far_future; }

  /// Completes all work that is due.
  virtual void advance(timestamp now) { static_cast<void>(now); }
};

/// Where a model's code runs.
enum class isolation_mode : uint8_t {
  /// On processors: in threads for trusted code, else in a process. On a GPU:
  /// in a process, which replicas share if their sharing mode needs one
  /// process.
  automatic,
  thread,  ///< in threads of the node, for any code
  process, ///< each replica in a confined process of its own
  device   ///< all of a device's replicas in one confined process
};

constexpr auto names_of(isolation_mode) {
  return name_table{"auto", "thread", "process", "device"};
}

/// Crashes on a node by model (name_in_journal), over all starts of the node.
using crash_counts = std::map<std::string, uint64_t, std::less<>>;

/// From this number of crashes, a node does not run the model's code in its own
/// threads.
inline constexpr uint64_t crashes_max = 3;

struct backend_settings {
  isolation_mode isolation = isolation_mode::automatic;
  /// Limit of a process's memory; besides the weights, if it has one replica.
  byte_count process_memory{uint64_t{4} << 30};
  /// Limits in a process, of a load and of a batch. A load at low priority,
  /// which waits for all other work, may take twenty times as long.
  nanoseconds load_limit{60s};
  nanoseconds run_limit{10min};
  std::optional<gpu_place> gpu{}; ///< GPU of the device; none: processors
  crash_counts crashes{};         ///< at the start of the node
  double pace = 1; ///< times slower than the processors, at least 1

  /// Whether one process has all replicas of the device.
  bool has_one_process() const {
    return isolation == isolation_mode::device
           || (isolation == isolation_mode::automatic && gpu
               && is_within_process(gpu->sharing));
  }
};

/// Runs models by the LibTorch backend, on the host's processors or on a GPU.
/// Each lane is a thread.
/// - On processors a lane has one operator thread; with few cores no other
///   split was faster. A batch that surely takes less time than waking a thread
///   runs on the caller's thread, if a lane is idle.
/// - On a GPU a lane waits for its own batch, so that with two or more lanes
///   one batch is copied while another computes.
/// - For a model in a process, a lane's thread waits for the process, see
///   confined/.
/// - With a pace above 1 a lane waits after each batch, which ends that much
///   later; loads take their own time.
/// Errors: unavailable when there is no backend, or processes cannot be forked.
result<std::unique_ptr<device>> make_backend_device(device_info info,
                                                    backend_settings settings,
                                                    device_listener& listener);

} // namespace millrace

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
  size_t last_layer = 0; ///< one past
  size_t max_batch = 1;  ///< rows; warmed up with these
  uint32_t threads = 1;  ///< of one execution
  double share = 0;      ///< of a GPU, 0 to 1; 0: all of it
  bool trusted = false;  ///< somebody vouches for its code
  /// It has the layers of that one, and others, which are loaded when nobody
  /// else has work: what both have is there once, while both are. 0: of none.
  instance_id extends_replica = 0;
  /// Nobody else serves what it has: it is ready as soon as it is loaded, and
  /// what comes first is its warm-up. The rest of it is tried once, when no
  /// lane has work, and what fails then is lost. Of no effect on a GPU: what a
  /// pass takes of that has to be known before others are put there.
  bool skip_warm_up = false;
  /// Its weights are yet to come: they are not looked at before on_arrival.
  bool arriving = false;
};

struct load_report {
  byte_count memory; ///< with what it shares
  nanoseconds load{0};
  nanoseconds warm_up{0};
  bool confined = false; ///< whatever it does ends no more than itself
};

/// One batch to run.
struct execution {
  uint64_t id = 0;
  instance_id instance = 0;
  double share = 0; ///< of the device, 0 to 1; 0: all of it
  int priority = 0;
  /// When the results are worthless: what can be stopped is stopped then.
  timestamp until = far_future;
  /// Inputs: a list for each request; or one for all, as the stage before gave
  /// it.
  std::vector<tensor_list> items;
  /// Of a batch that passes through several stages: the rows of each request.
  /// All but the last stage give one list for all of them.
  std::vector<uint64_t> rows;
  bool meters_memory = false; ///< which takes longer
  /// Says when nobody waits for the results any more: it is not begun then, and
  /// what can be stopped is, once it costs less than what it holds up.
  std::stop_token unwanted{};
  /// When the first of its requests is too late: a run of several that seems to
  /// have no end is stopped when half of the time until then is over. The other
  /// half is left to run them one by one.
  timestamp soonest = far_future;

  size_t requests() const { return std::max(items.size(), rows.size()); }
};

/// Why it is not begun; nothing: it is.
inline std::optional<error> in_vain(const execution& x, timestamp now) {
  if (x.unwanted.stop_requested())
    return error{ec::cancelled, "nobody waits for it any more"};
  if (now >= x.until)
    return error{ec::deadline_exceeded, "waited too long for the device"};
  return std::nullopt;
}

struct execution_report {
  uint64_t id = 0;
  uint32_t lane = 0;
  /// Per request, or one for all. Fails with poison when the instance was lost
  /// over it, cancelled over another that ran, unavailable before it was begun.
  result<std::vector<tensor_list>> outputs;
  timestamp started;
  timestamp ended;
  /// If that was metered, where it can be: bytes of tensors that it had
  /// allocated at most at a time, the outputs' included; else 0.
  uint64_t peak = 0;
  /// Time that the batch would have taken alone on the device; nothing: the
  /// device does not know.
  std::optional<nanoseconds> solo{};
};

/// Gets a device's completions; called on any thread.
class device_listener {
public:
  virtual ~device_listener() = default;
  virtual void on_loaded(instance_id x, result<load_report> report) = 0;
  /// A loaded instance is of no more use, and is to be unloaded; what it was
  /// given fails, after this. Says deadline_exceeded when it was ended for what
  /// took too long, cancelled when it is not to blame (what its process was
  /// forked from has ended, too, or others shared it), else unavailable.
  virtual void on_lost(instance_id x, error why) = 0;
  virtual void on_executed(execution_report report) = 0;
  /// Nothing can run there any more, whatever is loaded: all that was is of no
  /// use, as in on_lost; or it can again.
  virtual void on_usable(result<void> x) { static_cast<void>(x); }
};

/// Something that runs models. Commands return soon and complete through the
/// listener, which may be told before they return. Commands come from one
/// thread at a time. A device that lives on the actor clock instead of a thread
/// says when it wants to be called.
class device {
public:
  virtual ~device() = default;

  /// Loads and, unless it is to be ready at once, warms up; completes with
  /// on_loaded.
  virtual void load(load_request x, timestamp now) = 0;

  /// The weights of what was arriving are there now, or will not be.
  virtual void on_arrival(instance_id x, result<void> there, timestamp now) = 0;

  /// Gives memory back once what runs has ended; what can be stopped is.
  virtual void unload(instance_id x) = 0;

  /// Runs a batch; completes with on_executed. As many run at once as there are
  /// lanes; what waits is begun in order of call, by the lane that is free
  /// first.
  virtual void execute(execution x, timestamp now) = 0;

  /// How many threads later executions of an instance use, where the device
  /// runs them in threads. No effect on an instance that is not there.
  virtual void set_threads(instance_id id, uint32_t threads) {
    static_cast<void>(id);
    static_cast<void>(threads);
  }

  /// Multiplies all times of an emulated device from now on. False: it is not
  /// emulated.
  virtual bool slow_down(double factor, timestamp now) {
    static_cast<void>(factor);
    static_cast<void>(now);
    return false;
  }

  /// When advance wants to be called; never for devices with threads.
  virtual timestamp next_due() const { return far_future; }

  /// Completes what is due.
  virtual void advance(timestamp now) { static_cast<void>(now); }
};

/// Where a model's code runs.
enum class isolation_mode : uint8_t {
  /// On processors in threads when it is trusted, else in a process; on a GPU
  /// in a process, which replicas share if they share the GPU within one.
  automatic,
  thread,  ///< in threads of the node, whoever wrote it
  process, ///< each replica in a confined process of its own
  device   ///< all of a device's replicas in one confined process
};

constexpr auto names_of(isolation_mode) {
  return name_table{"auto", "thread", "process", "device"};
}

/// Crashes of a node by model (name_in_journal), over all of its lives.
using crash_counts = std::map<std::string, uint64_t, std::less<>>;

/// From this number of crashes on a node no longer runs the model's code in its
/// own threads.
inline constexpr uint64_t crashes_max = 3;

struct backend_settings {
  isolation_mode isolation = isolation_mode::automatic;
  /// Of a process: beside the weights, where it has one replica's alone.
  byte_count process_memory{uint64_t{4} << 30};
  /// In a process: of a load, but of one in the background, which waits for all
  /// else, twenty times as long; and of a batch.
  nanoseconds load_limit{60s};
  nanoseconds run_limit{10min};
  std::optional<gpu_place> gpu{}; ///< which that device is; else processors
  crash_counts crashes{};         ///< when the node started
  double pace = 1; ///< times slower than the processors, at least 1

  /// Whether one process has all replicas of the device.
  bool has_one_process() const {
    return isolation == isolation_mode::device
           || (isolation == isolation_mode::automatic && gpu
               && is_within_process(gpu->sharing));
  }
};

/// Runs models by the LibTorch backend, on the host's processors or on a GPU.
/// Each lane is a thread: on the processors with one operator thread, for on
/// few cores that beats any other split; on a GPU it waits for its own batch,
/// so that with two or more lanes one batch is copied while another computes.
/// What is sure to take less time than waking a thread does is run on the
/// caller's, if a lane is idle: no hand-off that the work does not need. A
/// model in a process has a lane's thread wait for it, see confined/. With a
/// pace above 1 a lane waits after each batch, which ends that much later;
/// loads take their own time. Errors:
/// unavailable when there is no backend, or no process can be made.
result<std::unique_ptr<device>> make_backend_device(device_info info,
                                                    backend_settings settings,
                                                    device_listener& listener);

} // namespace millrace

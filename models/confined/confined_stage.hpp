// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "models/backend/backend.hpp"
#include "models/confined/running_process.hpp"
#include "runtime/units.hpp"

namespace millrace::confined {

/// Settings of a stage in a sandboxed process.
struct stage_settings {
  std::shared_ptr<const bundle> content;
  bool trusted = false; ///< its operators are not checked
  size_t first_layer = 0;
  size_t last_layer = 0; ///< one past the last
  size_t max_batch = 1;  ///< rows of the warm-up; 0: none
  uint32_t threads = 1;  ///< of one execution
  uint32_t lanes = 1;    ///< concurrent executions, at most 200; others wait
  byte_count memory;     ///< limit, besides the weights
  nanoseconds load_limit{0};
  nanoseconds run_limit{10min};   ///< whatever limits.until is
  bool in_background = false;     ///< loads at low priority
  std::optional<gpu_place> gpu{}; ///< none: runs on the processors
  bool arriving = false;          ///< weights still arrive; as in load_request
};

struct load_times {
  nanoseconds load{0};
  nanoseconds warm_up{0};
  byte_count gpu_memory; ///< that the stage occupies
  /// Why the warm-up failed, in the model's own words; empty: it did not.
  std::string warm_up_error{};
};

/// Called on a thread of the stage, or on the thread of a run.
struct stage_events {
  /// Called once, unless the stage is given up before.
  std::function<void(result<load_times>)> loaded;
  /// Called once, when the process of a loaded stage has ended, before any run
  /// reports that. The code is deadline_exceeded if the process was ended for a
  /// request that took too long; cancelled if this stage is not known to be the
  /// cause (the template has ended, or the process was shared); else
  /// unavailable.
  std::function<void(error)> lost;
};

/// A stage in a sandboxed process: see confinement.hpp. A run copies its inputs
/// once, and the process copies its outputs once. Outputs are copied again if
/// they are small, or if all arenas of the lane are in use. The process ends
/// with the last stage that has entered it. It is killed:
/// - for a run past its deadline that takes more than four times as long as
///   others of its size (so a late start does not count), or is late by more
///   than a load takes;
/// - for a run with only cancelled requests, after both of these times (in
///   both cases not before run_limits::least);
/// - when a signal has stopped it for a third of a second during a run;
/// - when it has more threads than LibTorch might start.
class confined_stage : public loaded_stage {
public:
  /// The arriving weights are present now, or never will be. Called once.
  virtual void on_arrival(result<void> there) = 0;

  /// Sets the threads of later runs; at least 1. Raises the process's limit of
  /// threads by these.
  virtual void set_threads(uint32_t threads) = 0;

  /// Leaves the process, loaded or not; the process ends unless other stages
  /// share it. Later runs fail, and no event follows.
  virtual void give_up() = 0;
};

/// Starts to load a stage.
std::unique_ptr<confined_stage> make_confined_stage(process_source& source,
                                                    stage_settings settings,
                                                    stage_events events);

} // namespace millrace::confined

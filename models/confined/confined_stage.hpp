// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "models/backend/backend.hpp"
#include "models/confined/running_process.hpp"
#include "runtime/units.hpp"

namespace millrace::confined {

/// A stage to be loaded in a process.
struct stage_settings {
  std::shared_ptr<const bundle> content;
  bool trusted = false; ///< somebody vouches for its code: it is not looked at
  size_t first_layer = 0;
  size_t last_layer = 0; ///< one past
  size_t max_batch = 1;  ///< rows; warmed up with these, 0: not at all
  uint32_t threads = 1;  ///< of one execution
  uint32_t lanes = 1;    ///< executions at once; to 200, others wait
  byte_count memory;     ///< what it may take beside its weights
  nanoseconds load_limit{0};
  nanoseconds run_limit{10min};   ///< whatever `until` says
  bool in_background = false;     ///< loaded when nobody else has work
  std::optional<gpu_place> gpu{}; ///< where it runs; else on the processors
  bool arriving = false;          ///< as in load_request
};

struct load_times {
  nanoseconds load{0};
  nanoseconds warm_up{0};
  byte_count gpu_memory; ///< that it takes
  /// The model's own error that ended its warm-up; empty: none.
  std::string warm_up_error{};
};

/// Called on a thread of the stage's, or of whoever runs it.
struct stage_events {
  /// Once, unless the stage is given up before.
  std::function<void(result<load_times>)> loaded;
  /// Once, when the process of a loaded stage has ended, before any run on it
  /// says so: deadline_exceeded where it was ended for a request that took too
  /// long, cancelled where nothing is known against this stage (what its
  /// process was forked from has ended, or others shared it), else unavailable.
  std::function<void(error)> lost;
};

/// A stage in a process that can do nothing else: see confinement.hpp. A run
/// copies its inputs once, and its outputs in the process; these once more
/// where they are small, or all of a lane's arenas are in use. The process ends
/// with the last stage that has it, or is ended by a run that goes on beyond
/// its deadline and takes more than four times as long as those of its size
/// (what began late is no loop), or is late by more than it would take to load,
/// by one that nobody waits for, after that long and after longer than it would
/// take to load (neither before run_limits::least), when a signal has stopped
/// it for a third of a second while something runs, and when it has more
/// threads than LibTorch might start.
class confined_stage : public loaded_stage {
public:
  /// The weights of what was arriving are there now, or will not be. Once.
  virtual void on_arrival(result<void> there) = 0;

  /// Of runs that begin later; at least 1. The process may have these threads
  /// beside those it could have before.
  virtual void set_threads(uint32_t threads) = 0;

  /// Leaves the process, loaded or not, which ends unless others have it; runs
  /// fail then, and no event comes any more.
  virtual void give_up() = 0;
};

/// Starts to load one.
std::unique_ptr<confined_stage> make_confined_stage(process_source& source,
                                                    stage_settings settings,
                                                    stage_events events);

} // namespace millrace::confined

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "models/confined/confined_stage.hpp"
#include "models/crossing.hpp"
#include "models/device/batch_run.hpp"
#include "models/device/short_runs.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace {

/// A request alone that runs no longer is run on the caller's thread and not on
/// a lane: to wake the lane and be woken by it costs about 30 us, and the
/// model's code and parameters are cold on a core that slept (a 40 us model
/// takes 100 us there). Only where it is sure to be short again: code whose
/// time the values of its inputs cannot change, on inputs no larger than those
/// it was short on.
inline constexpr nanoseconds short_alone = 120us;

/// A batch that runs no longer is done sooner than a lane is woken; longer ones
/// are worth a core of their own, for more requests come meanwhile.
inline constexpr nanoseconds short_batch = 30us;

/// A stage in use by lanes; the last of them gives its memory back.
struct instance {
  std::unique_ptr<loaded_stage> stage;
  confined::confined_stage* process = nullptr; ///< the stage, if it has one
  worker_thread* loader = nullptr;             ///< else who loads it
  std::shared_ptr<const bundle> content;
  bool is_last = true;              ///< its outputs are the model's
  bool skip_warm_up = false;        ///< as in load_request
  std::atomic<uint32_t> threads{1}; ///< of later executions
  bool depends_on_values = true;
  short_runs alone{short_alone};
  short_runs batched{short_batch};
  std::shared_ptr<run_pace> pace; ///< of all copies of these layers, ever
  fitting_batch fits;
  /// What is attached, until its weights are there. For the loader's thread.
  std::optional<std::pair<load_request, load_report>> attached;

  short_runs& of(size_t requests) { return requests == 1 ? alone : batched; }
};

using instance_ptr = std::shared_ptr<instance>;

inline size_t row_bytes_of(const load_request& x) {
  auto row = zeros_across(x.content->info, x.first_layer, 1);
  return row ? bytes_of({*row}) : 0;
}

} // namespace millrace

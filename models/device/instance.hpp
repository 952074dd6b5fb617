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

/// Limit of the time of a single request that runs on the caller's thread
/// instead of a lane. To wake the lane and the caller costs about 30 us, and
/// the code and parameters are cold on an idle core (a 40 us model takes 100 us
/// there). Only used when the time is sure to be short again: the values of the
/// inputs do not affect it, and the inputs are no larger than those of earlier
/// short runs.
inline constexpr nanoseconds short_alone = 120us;

/// The same limit for a batch of several requests. Below it, the batch is done
/// sooner than a lane is woken; longer batches deserve their own core, for more
/// requests arrive meanwhile.
inline constexpr nanoseconds short_batch = 30us;

/// A stage that lanes use; the last reference frees its memory.
struct instance {
  std::unique_ptr<loaded_stage> stage;
  confined::confined_stage* process = nullptr; ///< `stage`, if it is confined
  /// Else the thread that loads it.
  worker_thread* loader = nullptr;
  std::shared_ptr<const bundle> content;
  bool is_last = true;              ///< its outputs are the model's outputs
  bool skip_warm_up = false;        ///< as in load_request
  std::atomic<uint32_t> threads{1}; ///< for later executions
  bool depends_on_values = true;
  short_runs alone{short_alone};
  short_runs batched{short_batch};
  /// Shared by all copies of these layers, over time.
  std::shared_ptr<run_pace> pace;
  fitting_batch fits;
  /// A load that waits for its weights. For the loader's thread.
  std::optional<std::pair<load_request, load_report>> attached;

  short_runs& of(size_t requests) { return requests == 1 ? alone : batched; }
};

using instance_ptr = std::shared_ptr<instance>;

inline size_t row_bytes_of(const load_request& request) {
  auto row = zeros_across(request.content->info, request.first_layer, 1);
  return row ? bytes_of({*row}) : 0;
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "models/backend/backend.hpp"

namespace millrace {

/// Called with the time of a pass over `rows` rows, after the first-call costs.
using timed_pass =
  std::function<void(size_t rows, size_t bytes, nanoseconds took)>;

struct warm_up_options {
  size_t first = 0, last = 1; ///< of the model
  size_t max_batch = 1;
  nanoseconds short_pass{0};
  std::function<timestamp()> now;
  timed_pass tell{};    ///< may be empty
  nanoseconds limit{0}; ///< of a pass; 0: none
  /// True: stop, the thread has other work; may be empty.
  std::function<bool()> is_over{};
  /// Called with an error of the model's own, which ends the warm-up; may be
  /// empty.
  std::function<void(const error&)> failed{};
};

/// Runs a stage on warm_up_inputs, with one row and with a full batch, until
/// this thread has paid the first-call costs: code paths, primitives per shape,
/// memory.
/// - A full batch is limited to the rows that take a fifth of a second; for a
///   stage, to its layers' share of that time.
/// - Passes below `short_pass` are repeated and reported: a lane that sleeps
///   before each request would not show their true time.
/// - `is_over` can end the warm-up between two passes, after the first.
/// - An error of the model's own (internal) is no failure: the model may reject
///   these inputs or this number of rows.
/// Errors: as the stage's otherwise.
result<void> warm_up(loaded_stage& stage, const manifest& of,
                     const warm_up_options& how);

/// Logs a warm-up that failed by an error of the model's own. The model serves
/// requests all the same: their inputs differ from the warm-up's.
void log_warm_up_failed(const manifest& of, const std::string& device,
                        const std::string& why);

} // namespace millrace

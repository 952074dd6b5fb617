// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "models/backend/backend.hpp"

namespace millrace {

/// What is told of a pass over so many rows, once first-call costs are paid.
using timed_pass =
  std::function<void(size_t rows, size_t bytes, nanoseconds took)>;

struct warm_up_options {
  size_t first = 0, last = 1; ///< layers, of the stage's
  size_t max_batch = 1;
  nanoseconds short_pass{0};
  std::function<timestamp()> now;
  timed_pass tell{};               ///< may be empty
  nanoseconds limit{0};            ///< of a pass; 0: none
  std::function<bool()> is_over{}; ///< others need the thread; may be empty
  /// Is told of an error of the model's own, which ends the warm-up; may be
  /// empty.
  std::function<void(const error&)> failed{};
};

/// Runs a stage on warm_up_inputs, as one row and as a full batch, until the
/// first-call costs of this thread are paid: code paths, primitives per shape,
/// memory. A full batch is cut to the rows that take a fifth of a second, and
/// for a stage to its layers' share of that time. Passes that take less than
/// `short_pass` are repeated and reported: on a lane that slept before each
/// request their true time would not be seen. A warm-up ends early between two
/// passes, the first one done. An error of the model's own (internal) does not
/// count: the model may reject these inputs or this number of rows. Errors: as
/// the stage's otherwise.
result<void> warm_up(loaded_stage& x, const manifest& of,
                     const warm_up_options& how);

/// Logs a warm-up that failed by an error of the model's own. The model serves
/// all the same: its requests have other inputs than the warm-up.
void log_warm_up_failed(const manifest& of, const std::string& device,
                        const std::string& why);

} // namespace millrace

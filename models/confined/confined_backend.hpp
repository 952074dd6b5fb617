// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "models/backend/backend.hpp"
#include "runtime/units.hpp"

namespace millrace::confined {

struct backend_settings {
  byte_count memory{uint64_t{4} << 30}; ///< of a process, besides its files
  nanoseconds limit{2min}; ///< to load, to take a file apart, to run
};

/// A backend that runs each model in a sandboxed process, for programs that
/// inspect untrusted models and serve none. Its stages are not warmed up; they
/// must end before the backend. To take a file apart may need four times the
/// file's size besides `memory`.
/// Errors: unavailable when processes cannot be started, with the reason. Its
/// functions have the errors of `backend`, and unavailable when a process ended
/// or exceeded the limit.
result<std::shared_ptr<backend>>
make_confined_backend(backend_settings settings);

} // namespace millrace::confined

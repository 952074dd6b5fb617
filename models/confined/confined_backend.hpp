// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "models/backend/backend.hpp"
#include "runtime/units.hpp"

namespace millrace::confined {

struct backend_settings {
  byte_count memory{uint64_t{4} << 30}; ///< of a process, beside its files
  nanoseconds limit{2min}; ///< to load, to take a file apart, to run
};

/// A backend with each model in a process that can do nothing else: for
/// programs that look at models nobody vouches for and serve none. Its stages
/// are not warmed up; they end before it does. A file that is taken apart may
/// need four times its size beside `memory`.
/// Errors: unavailable when processes cannot be had, with the reason. Its
/// functions' are a backend's, and unavailable when a process ended or took too
/// long.
result<std::shared_ptr<backend>> make_confined_backend(backend_settings x);

} // namespace millrace::confined

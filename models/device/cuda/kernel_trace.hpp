// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "models/backend/abi.h"

namespace millrace::cuda {

/// Notes kernels from now on, until they are taken: once at a time, and by
/// nobody else in this process. By CUPTI's activities, which cost a kernel some
/// microseconds. Throws where there is no CUPTI.
/// https://docs.nvidia.com/cupti/ , Activity API
void begin_kernel_trace();

/// Hands them on in the order in which they began, timed from then. Waits for
/// what the GPU was given.
void end_kernel_trace(const std::function<void(const millrace_kernel&)>& to);

} // namespace millrace::cuda

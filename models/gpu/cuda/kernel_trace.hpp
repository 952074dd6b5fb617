// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "models/gpu/kernel.h"

namespace millrace::cuda {

/// Records kernels until end_kernel_trace(). Only one trace per process at a
/// time. Uses CUPTI's activities, which cost some microseconds per kernel.
/// Throws where there is no CUPTI.
/// https://docs.nvidia.com/cupti/ , Activity API
void begin_kernel_trace();

/// Waits for the GPU's submitted work, then passes the kernels in the order of
/// their starts, with times relative to the first start.
void end_kernel_trace(const std::function<void(const millrace_kernel&)>& to);

} // namespace millrace::cuda

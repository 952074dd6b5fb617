// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "models/gpu/gpu.hpp"

namespace millrace {

/// Share of the GPU's multiprocessors that a kernel's blocks need to be
/// resident at once, in percent, at most 100. Derived from the launch
/// parameters alone; rounded up to whole multiprocessors. (The interference
/// framework, 4.3, with the factor of 100 that it omits.)
double sm_utilisation(const kernel_run& kernel, const gpu_info& gpu);

/// Share of the GPU's warps that a kernel's blocks occupy, in percent. Derived
/// from the launch parameters: an upper bound of the counters' value. Needs
/// `resident` of the kernel; else 0.
double launch_occupancy(const kernel_run& kernel, const gpu_info& gpu);

/// Summed heights of kernels over a span of time: concurrent kernels add up,
/// and idle time counts as 0. (The same paper, 4.2.)
struct kernel_heights {
  double highest = 0; ///< AO, of occupancies
  /// Mean over time: WAO of occupancies, WSM of utilisations.
  double weighted = 0;
};

/// Heights from the first kernel's start to the last kernel's end. `height`
/// gives the height of one kernel; `most` bounds the sum.
kernel_heights
heights_of(std::span<const kernel_run> xs,
           const std::function<double(const kernel_run&)>& height,
           double most = 100);

} // namespace millrace

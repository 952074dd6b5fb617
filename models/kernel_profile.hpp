// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "models/device/gpu.hpp"

namespace millrace {

/// How many of a GPU's multiprocessors a kernel's blocks need to be all there
/// at a time, in percent: 100 as well where they need more than there are. From
/// how it is launched alone; rounded up to whole multiprocessors. (The
/// interference framework, 4.3, with the factor of 100 that it omits.)
double sm_utilisation(const kernel_run& x, const gpu_info& gpu);

/// Of the warps that the GPU takes, those that a kernel's blocks have, in
/// percent: what its launch allows, an upper bound of what counters would show.
/// `resident` of the kernel has to be known; else 0.
double launch_occupancy(const kernel_run& x, const gpu_info& gpu);

/// What adds up over a span of time: kernels that run at the same time are on
/// top of each other, and nothing is 0 high. (The same, 4.2.)
struct kernel_heights {
  double highest = 0;  ///< AO, of occupancies
  double weighted = 0; ///< by how long it is so: WAO of occupancies, WSM of
                       ///< utilisations
};

/// From the first kernel's beginning to the last one's end, each as high as
/// `height` says, together no higher than `most`.
kernel_heights
heights_of(std::span<const kernel_run> xs,
           const std::function<double(const kernel_run&)>& height,
           double most = 100);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/node/compose.hpp"

namespace millrace {

/// Where on a GPU the models of such a device run.
gpu_place place_of(const cuda_config& x);

/// Makes the devices that a config names: real ones, and emulated ones with
/// times from its profiles. Models that crashed the node too often do not run
/// in its threads. Errors: read_book's.
result<device_maker> make_devices_of(const cluster_config& config,
                                     const crash_counts& crashes);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/node/compose.hpp"

namespace millrace {

/// Returns the GPU, or the part of a GPU, where models of this device run.
gpu_place place_of(const cuda_config& settings);

/// Returns a maker of the devices of a config: real devices, and emulated
/// devices with times from their profiles. A model that crashed the node too
/// often does not run in threads of the node. Errors: as read_book.
result<device_maker> make_devices_of(const cluster_config& config,
                                     const crash_counts& crashes);

} // namespace millrace

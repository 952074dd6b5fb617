// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/device/nvml.hpp"
#include "runtime/host_probe.hpp"
#include "transport/messages/load.hpp"

namespace millrace {

/// Usage between two counts of the same thing, `apart` one from the other.
/// Counts that went back (it was started anew) count from zero.
device_usage usage_between(const device_load& before, const device_load& after,
                           nanoseconds apart);
replica_usage usage_between(const replica_load& before,
                            const replica_load& after, nanoseconds apart);

/// Fills in what the driver says of a device that is a GPU.
void add_gpu_usage(device_usage& out, const gpu_reading& x);

/// Fills in the host's part.
void add_host_usage(node_load& out, const host_reading& before,
                    const host_reading& after, nanoseconds apart);

} // namespace millrace

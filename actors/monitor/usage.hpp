// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/gpu/nvml.hpp"
#include "runtime/host_probe.hpp"
#include "transport/messages/load.hpp"

namespace millrace {

/// Usage between two counts of the same device or replica, `apart` in time. A
/// count that went down was restarted, and counts from zero.
device_usage usage_between(const device_load& before, const device_load& after,
                           nanoseconds apart);
replica_usage usage_between(const replica_load& before,
                            const replica_load& after, nanoseconds apart);

/// Adds the reading of the driver to the usage of a GPU device.
void add_gpu_usage(device_usage& out, const gpu_reading& reading);

/// Adds the usage of the host.
void add_host_usage(node_load& out, const host_reading& before,
                    const host_reading& after, nanoseconds apart);

} // namespace millrace

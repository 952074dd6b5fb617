// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/node/compose.hpp"

namespace millrace {

/// Makes the devices that a config names: real ones, and such as take their
/// times from its profiles. Errors: as read_book, of those.
result<device_maker> make_devices_of(const cluster_config& config);

} // namespace millrace

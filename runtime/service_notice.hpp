// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/time.hpp"

namespace millrace {

/// Reports the state of this process to the service manager, as lines
/// NAME=VALUE: "READY=1", "STOPPING=1", "STATUS=..." (sd_notify(3)). Does
/// nothing without $NOTIFY_SOCKET or when the service manager does not listen.
void notify_service(const std::string& lines);

/// Interval between "WATCHDOG=1" reports: half of $WATCHDOG_USEC. 0: the
/// service manager expects no reports.
milliseconds watchdog_period();

} // namespace millrace

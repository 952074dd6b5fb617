// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/time.hpp"

namespace millrace {

/// Tells a service manager how this process is, as lines of NAME=VALUE:
/// "READY=1", "STOPPING=1", "STATUS=..." (sd_notify(3)). Where none wants to
/// know ($NOTIFY_SOCKET is not set), and where it does not listen, nothing
/// happens.
void notify_service(const std::string& lines);

/// How often a service manager wants to hear "WATCHDOG=1": half of what it
/// allows ($WATCHDOG_USEC). 0: never.
milliseconds watchdog_period();

} // namespace millrace

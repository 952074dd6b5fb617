// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/print.hpp"
#include "runtime/event_memory.hpp"

namespace millrace {

/// An event of the log as JSON: "when", "level", "component", "event", and
/// "fields" (all values are strings). A line of another form than
/// "COMPONENT.EVENT KEY=VALUE ..." has a member "text" instead.
json event_json(const kept_event& event);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/print.hpp"
#include "runtime/event_memory.hpp"

namespace millrace {

/// An event of the log as JSON: "when", "level", "component", "event", and
/// "fields", a text each. A text that is no event of the log ("COMPONENT.EVENT
/// KEY=VALUE ...") stands in "text" instead.
json event_json(const kept_event& x);

} // namespace millrace

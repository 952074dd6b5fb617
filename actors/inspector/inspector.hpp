// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "actors/handles.hpp"

namespace millrace {

/// Sources of an INSPECTOR.
struct inspector_options {
  std::shared_ptr<span_recorder> spans;
  /// Checks the host; may be empty.
  std::function<std::vector<finding>()> examine;
  std::function<microseconds()> wall_clock; ///< may be empty
};

/// The INSPECTOR answers queries of operators about a node as a process:
/// clocks, events, limits, spans. It keeps at most 100,000 spans, recorded for
/// a minute at most.
inspector_actor::behavior_type
inspector(inspector_actor::stateful_pointer<struct inspector_state> self,
          inspector_options options);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "actors/handles.hpp"

namespace millrace {

/// What a node lets people see of it, beside what its actors do.
struct inspector_options {
  std::shared_ptr<span_recorder> spans;
  std::function<std::vector<finding>()> examine; ///< its host; may be empty
  std::function<microseconds()> wall_clock;      ///< may be empty
};

/// Answers people's questions about a node as a program on a host: its clocks,
/// events, limits, spans. At most 100,000 spans are kept, for a minute at most.
inspector_actor::behavior_type
inspector(inspector_actor::stateful_pointer<struct inspector_state> self,
          inspector_options options);

} // namespace millrace

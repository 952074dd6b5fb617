// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace {

/// What several requests that travel together between nodes have of a message
/// (wire_limits) at most: heartbeats wait behind it. One alone has all of it.
inline constexpr double share_of_batch = 0.25;

} // namespace millrace

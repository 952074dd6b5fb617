// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "client/operator_client.hpp"

namespace millrace {

/// How a node's clocks stand to the shell's.
struct clock_estimate {
  microseconds monotonic{0}; ///< what is added to a time of the node's
  microseconds wall{0};      ///< how far ahead of the shell's host it is
  microseconds within{0};    ///< of the truth, either way
};

/// Asks each node some times; the answer that came quickest counts, for the
/// node read its clock at most half that time from the middle (Cristian,
/// Probabilistic clock synchronization, 1989).
std::map<std::string, clock_estimate>
estimate_clocks(operator_client& cluster,
                const std::vector<std::string>& nodes);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "client/operator_client.hpp"

namespace millrace {

/// Offsets of a node's clocks from the clocks of the shell's host.
struct clock_estimate {
  microseconds monotonic{0}; ///< to add to a monotonic time of the node
  microseconds wall{0};      ///< node's wall clock minus the shell's
  microseconds within{0};    ///< the error of both, at most, either way
};

/// Reads the clocks of each node several times and uses the answer with the
/// shortest round trip: the node read its clock at most half a round trip from
/// the middle (Cristian, Probabilistic clock synchronization, 1989).
std::map<std::string, clock_estimate>
estimate_clocks(operator_client& cluster,
                const std::vector<std::string>& nodes);

} // namespace millrace

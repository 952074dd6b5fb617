// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/bench.hpp"

namespace millrace {

/// Measures the control loop on 1,213 nodes with 6,212 devices and 1,000
/// models: the time for a snapshot with a tenth of the nodes and models
/// changed, the time for the decisions of arrival_rate, and the size of a delta
/// of 20 models.
std::vector<bench_row> measure_large_cluster(int rounds);

} // namespace millrace

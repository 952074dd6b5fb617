// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/bench/bench.hpp"

namespace millrace {

/// The control loop on 1,213 nodes with 6,212 devices and 1,000 models: how
/// long the next snapshot takes when a tenth of the nodes and of the models has
/// changed, how long the decisions of arrival_rate on it, and how large the
/// delta of 20 models is.
std::vector<bench_row> measure_large_cluster(int rounds);

} // namespace millrace

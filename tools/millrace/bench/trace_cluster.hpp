// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "millrace/bench/bench.hpp"

namespace millrace {

/// Placement on the cluster of a trace, with its pods as demand: how long one
/// replica takes, how long all pods take with an index that is kept, and how
/// long with an index that is rebuilt for each pod. Rows for each placement
/// policy.
///
/// The files are those of Alibaba's GPU trace of 2023, gzipped or not: nodes
/// with columns sn, cpu_milli, memory_mib, gpu, model; pods with name,
/// cpu_milli, memory_mib, num_gpu, gpu_milli. Without a pods file the one next
/// to the nodes counts, with "pods" in place of "nodes" in its name. Errors:
/// bad_request with file and line.
result<std::vector<bench_row>>
measure_trace_cluster(const std::string& nodes, std::string pods, int rounds);

} // namespace millrace

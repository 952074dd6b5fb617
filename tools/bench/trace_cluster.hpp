// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/bench.hpp"

namespace millrace {

/// Measures placement on the cluster of a trace with its pods as demand: the
/// time for one pod, for all pods with one index, and for all pods with an
/// index rebuilt for each pod. Rows for each placement policy.
///
/// The files are Alibaba's GPU trace of 2023, gzipped or not: nodes with
/// columns sn, cpu_milli, memory_mib, gpu, model; pods with columns name,
/// cpu_milli, memory_mib, num_gpu, gpu_milli. Without `pods`, uses the file
/// next to the nodes with "pods" in place of "nodes" in its name. Errors:
/// bad_request with file and line.
result<std::vector<bench_row>>
measure_trace_cluster(const std::string& nodes, std::string pods, int rounds);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "simulator/summary.hpp"

namespace millrace::simulator {

/// Writes a run's tables into a directory: requests.csv, batches.csv,
/// replicas.csv, replica_counts.csv, hosts.csv, machines.csv, links.csv,
/// devices.csv, events.csv. Errors: unavailable with the path.
result<void> write_tables(const loaded_scenario& what, const record& run,
                          const std::string& directory);

/// Draws latency.svg (distribution by model), replicas.svg (wanted,
/// reserved, ready, over time), queues.svg (waiting and executing, over time)
/// and requests.svg (asked, answered in time and not, per second) with gnuplot.
/// Errors: unavailable when there is no gnuplot, or what it says.
result<void> draw_plots(const loaded_scenario& what, const record& run,
                        const std::string& directory);

/// Writes a trace in Chrome's format, which Perfetto opens: a process per node,
/// a thread per device, a slice per batch and request, an arrow from each
/// request to the batch that ran it. Errors: unavailable with the path.
result<void> write_trace(const loaded_scenario& what, const record& run,
                         const std::string& path);

} // namespace millrace::simulator

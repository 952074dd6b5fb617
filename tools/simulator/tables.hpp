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

/// Draws plots with gnuplot: latency.svg (distribution by model), replicas.svg
/// (wanted, reserved, ready, over time), queues.svg (waiting and executing,
/// over time) and requests.svg (sent, answered in time, late or failed, per
/// second). Errors: as run_gnuplot.
result<void> draw_plots(const loaded_scenario& what, const record& run,
                        const std::string& directory);

/// Writes a trace in Chrome's format, for Perfetto: a process per node, a
/// thread per device, a slice per batch and request, an arrow from each request
/// to its batch. Errors: unavailable with the path.
result<void> write_trace(const loaded_scenario& what, const record& run,
                         const std::string& path);

} // namespace millrace::simulator

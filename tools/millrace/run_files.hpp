// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "simulator/tables.hpp"

namespace millrace {

/// Creates the directory for the files of a run. Errors: bad_request if that
/// fails.
result<void> make_run_directory(const std::string& path);

/// Warns, with the reason, that there are no plots; the tables exist anyway.
void warn_of(const result<void>& drawn);

/// Writes all files of a run (tables, trace, summary.json, plots) in place of
/// an earlier run's. Without gnuplot, warns and omits the plots. Errors:
/// unavailable with the path.
result<void> write_run(const loaded_scenario& what,
                       const simulator::record& run,
                       const simulator::run_summary& found,
                       const std::string& directory);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "simulator/tables.hpp"

namespace millrace {

/// Makes the directory that a run is going to be written into. Errors:
/// bad_request when that cannot be.
result<void> make_run_directory(const std::string& path);

/// Says why there are no pictures: their tables are there without them.
void warn_of(const result<void>& drawn);

/// Writes all there is of a run: tables, trace, summary.json, pictures, in the
/// place of another's. Without gnuplot it says so, and there are no pictures.
/// Errors: unavailable with the path.
result<void> write_run(const loaded_scenario& what,
                       const simulator::record& run,
                       const simulator::run_summary& found,
                       const std::string& directory);

} // namespace millrace

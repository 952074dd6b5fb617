// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/experiment.hpp"
#include "millrace/print.hpp"

namespace millrace {

/// A cell of an experiment's table: a scenario with some options replaced.
struct experiment_cell {
  cell_selector at;
  std::vector<std::string> set;           ///< KEY=VALUE each
  std::map<std::string, std::string> let; ///< texts of $NAME in measures
  std::string left_out;                   ///< the reason; empty: it is run
};

/// Cells by axis in the order of the file, modes last.
struct experiment_plan {
  std::vector<std::string> axes; ///< with "mode"
  /// Of each axis the values in this run, in the order of the file.
  std::map<std::string, std::vector<std::string>> values;
  /// Whether all values of the axis are in this run.
  std::map<std::string, bool> whole;
  std::vector<experiment_cell> cells;
};

/// The cells of a run. `modes`: only these; empty: all, or those of a quick
/// run. Errors: bad_request for a mode that the experiment lacks and for more
/// than 10,000 cells.
result<experiment_plan> plan_cells(const experiment& x, bool quick,
                                   const std::vector<std::string>& modes);

/// What the run of a cell with one seed gave.
struct cell_run {
  cell_selector at;
  uint64_t seed = 0;
  json found;        ///< a run's summary; null: there is none
  std::string error; ///< why there is none
};

/// "t5-3b, store".
std::string name_of_cell(const experiment_plan& plan, const cell_selector& at);

/// The number at a path such as starts[source=store].mean in a run's summary:
/// members by their names, elements of lists by a member's value. Errors:
/// bad_request with the part of the path that was not found.
result<double> number_at(const json& summary, const std::string& path);

} // namespace millrace

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
  std::vector<std::string> set;           ///< as KEY=VALUE
  std::map<std::string, std::string> let; ///< $NAME to value, in measures
  std::string left_out;                   ///< reason; empty: the cell is run
};

/// The cells by axis, in the order of the experiment's file; modes last.
struct experiment_plan {
  std::vector<std::string> axes; ///< including "mode"
  /// Axis to its values in this run, in the order of the file.
  std::map<std::string, std::vector<std::string>> values;
  /// Axis to whether all its values are in this run.
  std::map<std::string, bool> whole;
  std::vector<experiment_cell> cells;
};

/// The cells of a run. `modes`: only these modes; empty: all, or those of a
/// quick run. Errors: bad_request for an unknown mode, and over 10,000 cells.
result<experiment_plan> plan_cells(const experiment& described, bool quick,
                                   const std::vector<std::string>& modes);

/// The result of a cell with one seed.
struct cell_run {
  cell_selector at;
  uint64_t seed = 0;
  json found;        ///< the run's summary; null: none
  std::string error; ///< why there is no summary
};

/// "t5-3b, store".
std::string name_of_cell(const experiment_plan& plan, const cell_selector& at);

/// The number at a path such as starts[source=store].mean in a run's summary:
/// members by name, elements of lists by the value of a member. Errors:
/// bad_request with the missing part of the path.
result<double> number_at(const json& summary, const std::string& path);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/experiment_cells.hpp"
#include "millrace/statistics.hpp"

namespace millrace {

/// One figure of an experiment: a measure in a cell, a ratio of two cells, or a
/// mean of either over an axis.
struct figure_row {
  std::string figure; ///< name of the measure or ratio
  bool is_ratio = false;
  std::string unit;
  size_t digits = 2;
  cell_selector at;      ///< of a ratio, "A / B" on the axes that differ
  interval_mean ours;    ///< over the seeds; of no value: the row is empty
  std::string empty;     ///< why it is empty
  bool left_out = false; ///< empty by the experiment's own word
  std::optional<double> printed;
  std::string place; ///< where the literature prints it
};

/// An assertion and the rows it was checked on.
struct checked_assertion {
  enum class outcome : uint8_t { holds, fails, not_checked };
  std::string says;
  outcome result = outcome::not_checked;
  std::string found; ///< the first row that decides
};

struct experiment_table {
  std::vector<figure_row> rows;
  std::vector<checked_assertion> assertions;
};

/// Works out the table from the runs there are. A ratio is computed seed by
/// seed, and only where the runs agree in what it holds equal; a mean over an
/// axis only where all values of the axis are in the plan and have a run.
experiment_table evaluate(const experiment& x, const experiment_plan& plan,
                          std::span<const cell_run> runs);

/// Rows of text cells, the first a heading.
table printed_table(const experiment_plan& plan, const experiment_table& x);

/// As RFC 4180 has it.
std::string csv_text(const experiment_plan& plan, const experiment_table& x);

/// The table, the assertions and the choices.
json table_json(const experiment& x, const experiment_plan& plan,
                const experiment_table& found);

/// Lines below the table: why rows are empty, assertions, choices.
std::string notes_text(const experiment& x, const experiment_plan& plan,
                       const experiment_table& found);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/experiment_cells.hpp"
#include "millrace/statistics.hpp"

namespace millrace {

/// A figure of an experiment: a measure in a cell, a ratio of two cells, or the
/// mean of either over an axis.
struct figure_row {
  std::string figure; ///< name of the measure or the ratio
  bool is_ratio = false;
  std::string unit;
  size_t digits = 2;
  cell_selector at;      ///< for a ratio: "A / B" on the axes that differ
  interval_mean ours;    ///< over the seeds; without a value: the row is empty
  std::string empty;     ///< why the row is empty
  bool left_out = false; ///< the experiment leaves this cell out
  std::optional<double> printed;
  std::string place; ///< the place in the literature
};

/// An assertion, and the result of its check.
struct checked_assertion {
  enum class outcome : uint8_t { holds, fails, not_checked };
  std::string says;
  outcome result = outcome::not_checked;
  std::string found; ///< the first row that decided the outcome
};

struct experiment_table {
  std::vector<figure_row> rows;
  std::vector<checked_assertion> assertions;
};

/// Computes the table from the finished runs. A ratio is computed seed by seed,
/// and only if the runs agree in the settings that the ratio requires to be
/// equal. A mean over an axis needs a run for each value of the axis.
experiment_table evaluate(const experiment& described,
                          const experiment_plan& plan,
                          std::span<const cell_run> runs);

/// The table as rows of text; the first row is a heading.
table printed_table(const experiment_plan& plan, const experiment_table& found);

/// The table as CSV (RFC 4180).
std::string csv_text(const experiment_plan& plan,
                     const experiment_table& found);

/// The table, the assertions and the choices as JSON.
json table_json(const experiment& described, const experiment_plan& plan,
                const experiment_table& found);

/// The lines below the table: why rows are empty, assertions, choices.
std::string notes_text(const experiment& described, const experiment_plan& plan,
                       const experiment_table& found);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"

namespace millrace {

/// Selects cells by axis and value; the modes are the axis "mode". An axis that
/// is not named matches all of its values.
using cell_selector = std::map<std::string, std::string>;

/// Names, in place of a value, of rows with a mean over all values of an axis.
constexpr auto mean_value = "mean";
constexpr auto geometric_value = "geometric";

/// The axis of the modes.
constexpr auto mode_axis = "mode";

/// A named change of the experiment's scenario: a value of an axis, or a mode.
struct scenario_change {
  std::string name;
  std::string says;
  std::vector<std::string> set;
  std::map<std::string, std::string> let;
  MILLRACE_FIELDS(scenario_change, name, says, set, let)
  static constexpr auto notes() {
    return std::array{
      note{"name in tables and for --mode"},
      note{"description in one sentence"},
      note{"options of the scenario that the change replaces, KEY=VALUE each"},
      note{"texts that replace $NAME in measures and in the options of `set`"},
    };
  }
};

/// One dimension of the table.
struct experiment_axis {
  std::string name;
  std::string key;
  std::vector<scenario_change> values;
  std::vector<std::string> quick;
  MILLRACE_FIELDS(experiment_axis, name, key, values, quick)
  static constexpr auto notes() {
    return std::array{
      note{"name in tables"},
      note{"option of the scenario that is set to the name of each value;"
           " default: none, the values set options themselves"},
      note{"the values"}, note{"values of a quick run; default: all"}};
  }
};

/// A number from the summary of each run.
struct experiment_measure {
  std::string name;
  std::string unit;
  std::string path;
  double times = 1;
  std::string divide;
  uint64_t digits = 2;
  std::string over;
  MILLRACE_FIELDS(experiment_measure, name, unit, path, times, divide, digits,
                  over)
  static constexpr auto notes() {
    return std::array{
      note{"name in tables"},
      note{"unit of the values"},
      note{"path in summary.json, such as starts[source=store].mean"},
      note{"factor on the value", 1e-12, 1e12},
      note{"divisor of the value: a number, or a path in summary.json;"
           " default: 1"},
      note{"digits after the decimal point", 0, 9},
      note{"axis over which the arithmetic and the geometric mean are also"
           " printed; default: none"}};
  }
};

/// The quotient of a measure in two cells.
struct experiment_ratio {
  std::string name;
  std::string measure;
  cell_selector of;
  cell_selector to;
  std::vector<std::string> equal;
  double within = 0;
  uint64_t digits = 2;
  std::string over;
  MILLRACE_FIELDS(experiment_ratio, name, measure, of, to, equal, within,
                  digits, over)
  static constexpr auto notes() {
    return std::array{note{"name in tables"},
                      note{"measure of numerator and denominator"},
                      note{"cells of the numerator. Each value of an axis that"
                           " neither `of` nor `to` names gives a ratio"},
                      note{"cells of the denominator"},
                      note{"paths in summary.json with values that must agree"
                           " in both runs; otherwise the ratio is omitted"},
                      note{"relative difference that `equal` allows", 0, 1},
                      note{"digits after the decimal point", 0, 9},
                      note{"axis over which the means are also printed"}};
  }
};

/// A number printed in a publication.
struct printed_figure {
  std::string measure;
  std::string ratio;
  cell_selector at;
  double value = 0;
  std::string place;
  MILLRACE_FIELDS(printed_figure, measure, ratio, at, value, place)
  static constexpr auto notes() {
    return std::array{
      note{"measure that the number belongs to"},
      note{"ratio that the number belongs to, instead of a measure"},
      note{"cells that the number belongs to"},
      note{"the printed number, in the unit of the measure"},
      note{"place of the number in the publication; default:"
           " the experiment's `figure`"}};
  }
};

/// A claim about our results.
struct experiment_assertion {
  std::string says;
  std::string measure;
  std::string ratio;
  cell_selector at;
  std::optional<double> least;
  std::optional<double> most;
  MILLRACE_FIELDS(experiment_assertion, says, measure, ratio, at, least, most)
  static constexpr auto notes() {
    return std::array{
      note{"the claim, as a sentence"},
      note{"measure of the claim"},
      note{"ratio of the claim, instead of a measure"},
      note{"cells of the claim; each cell must be within the bounds"},
      note{"lower bound of the mean over the seeds"},
      note{"upper bound of the same mean"}};
  }
};

/// A parameter that the publication leaves open.
struct open_parameter {
  std::string open;
  std::string choice;
  std::string why;
  MILLRACE_FIELDS(open_parameter, open, choice, why)
  static constexpr auto notes() {
    return std::array{note{"the parameter that is left open"},
                      note{"the value chosen here"}, note{"the reason"}};
  }
};

/// Cells that are not run.
struct left_out_cells {
  cell_selector at;
  std::string why;
  MILLRACE_FIELDS(left_out_cells, at, why)
  static constexpr auto notes() {
    return std::array{note{"cells that are not run"},
                      note{"the reason, printed with the empty cells"}};
  }
};

/// A published experiment: a table of cells. Each cell is a scenario with some
/// options replaced, run for several seeds.
struct experiment {
  std::string name;
  std::string says;
  std::string figure;
  std::string scenario;
  uint64_t seeds = 5;
  std::vector<experiment_axis> axes;
  std::vector<scenario_change> modes;
  std::vector<std::string> quick_modes;
  std::vector<experiment_measure> measures;
  std::vector<experiment_ratio> ratios;
  std::vector<printed_figure> printed;
  std::vector<experiment_assertion> assertions;
  std::vector<open_parameter> choices;
  std::vector<left_out_cells> without;
  MILLRACE_FIELDS(experiment, name, says, figure, scenario, seeds, axes, modes,
                  quick_modes, measures, ratios, printed, assertions, choices,
                  without)
  static constexpr auto notes() {
    return std::array{
      note{"name of the experiment and of its file"},
      note{"description in one sentence"},
      note{"figure or table of the publication"},
      note{"file of the scenario, relative to the folder of this file"},
      note{"number of seeds for each cell, counted from the scenario's seed", 1,
           1000},
      note{"dimensions of the table besides the modes"},
      note{"systems or techniques to compare"},
      note{"modes of a quick run; default: all"},
      note{"numbers to read from each run"},
      note{"quotients of measures"},
      note{"numbers of the publication"},
      note{"claims about our results; a false claim is a failure"},
      note{"parameters that the publication leaves open, with our choice"},
      note{"cells that are not run"}};
  }
};

/// Reads and checks an experiment. The scenario's path in the result is
/// relative to the working directory. Errors: bad_config with file, line and
/// key.
result<experiment> load_experiment(const std::string& path);

/// Parses an experiment from a text. Errors name the text by `file`; paths are
/// relative to the folder of `file`.
result<experiment> parse_experiment(const std::string& text,
                                    const std::string& file);

/// Whether the cell has all values that the selector names.
bool selects(const cell_selector& selector, const cell_selector& cell);

/// Replaces each $NAME in a text; nullopt when a variable has no value.
std::optional<std::string>
substitute(const std::string& text,
           const std::map<std::string, std::string>& let);

/// A Markdown table of all keys of an experiment.
std::string experiment_reference();

} // namespace millrace

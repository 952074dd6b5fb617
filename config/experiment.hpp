// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"

namespace millrace {

/// Axis and value of each cell that is meant, "mode" among the axes; an axis
/// that is left out means all of its values.
using cell_selector = std::map<std::string, std::string>;

/// Rows over all values of an axis have one of these in place of a value.
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
      note{"how tables and --mode name it"},
      note{"a sentence about it"},
      note{"options of the scenario that it replaces, KEY=VALUE each"},
      note{"texts that stand for $NAME in measures and in options of 'set'"},
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
      note{"how tables name it"},
      note{"option of the scenario that each value's name is given to; default:"
           " none, the values set options themselves"},
      note{"the values"}, note{"values of a quick run; default: all"}};
  }
};

/// A figure that is taken from the summary of each run.
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
      note{"how tables name it"},
      note{"of its values"},
      note{"place in summary.json, such as starts[source=store].mean"},
      note{"what the value is multiplied by", 1e-12, 1e12},
      note{"a number, or a path like the one above, by which the value is"
           " divided; default: 1"},
      note{"after the point", 0, 9},
      note{"axis over whose values the arithmetic and the geometric mean are"
           " printed as well; default: none"}};
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
    return std::array{
      note{"how tables name it"},
      note{"whose values are divided"},
      note{"cells of the numerator; axes that neither this nor 'to' names give"
           " a ratio for each of their values"},
      note{"cells of the denominator"},
      note{"paths in summary.json whose values have to agree in both runs;"
           " otherwise there is no ratio"},
      note{"part by which these values may differ", 0, 1},
      note{"after the point", 0, 9},
      note{"axis over whose values the means are printed as well"}};
  }
};

/// A figure that the literature prints.
struct printed_figure {
  std::string measure;
  std::string ratio;
  cell_selector at;
  double value = 0;
  std::string place;
  MILLRACE_FIELDS(printed_figure, measure, ratio, at, value, place)
  static constexpr auto notes() {
    return std::array{note{"of which measure"}, note{"or of which ratio"},
                      note{"of which cells"},
                      note{"the figure, in the unit of the measure"},
                      note{"where it is printed; default: the experiment's"
                           " 'figure'"}};
  }
};

/// What has to hold of our figures.
struct experiment_assertion {
  std::string says;
  std::string measure;
  std::string ratio;
  cell_selector at;
  std::optional<double> least;
  std::optional<double> most;
  MILLRACE_FIELDS(experiment_assertion, says, measure, ratio, at, least, most)
  static constexpr auto notes() {
    return std::array{note{"the claim, as a sentence"},
                      note{"of which measure"},
                      note{"or of which ratio"},
                      note{"of which cells; each of them has to be within the"
                           " bounds"},
                      note{"lower bound of the mean over the seeds"},
                      note{"upper bound"}};
  }
};

/// Something that the literature leaves open.
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
    return std::array{note{"of which cells"},
                      note{"the reason, printed with the empty cells"}};
  }
};

/// An experiment of the literature: cells of a table, each a scenario with some
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
      note{"of the experiment, and of its file"},
      note{"a sentence about it"},
      note{"figure or table of the literature, and its place"},
      note{"file of the scenario, from the place of this file"},
      note{"how many seeds each cell is run for, from the scenario's on", 1,
           1000},
      note{"the dimensions of the table beside the modes"},
      note{"systems or techniques that are compared"},
      note{"modes of a quick run; default: all"},
      note{"figures taken from each run"},
      note{"quotients of these"},
      note{"figures of the literature"},
      note{"claims about our figures; a false one is a failure"},
      note{"what the literature leaves open, and what is chosen"},
      note{"cells that are not run"}};
  }
};

/// Reads and checks an experiment; the scenario's path becomes one from the
/// working directory. Errors: bad_config with file, line and key.
result<experiment> load_experiment(const std::string& path);

/// The same for a text; `file` is how errors name it, and where paths begin.
result<experiment> parse_experiment(const std::string& text,
                                    const std::string& file);

/// Whether each coordinate that the selector names is the cell's.
bool selects(const cell_selector& selector, const cell_selector& cell);

/// The text with each $NAME replaced; nothing when one has no value.
std::optional<std::string>
substitute(const std::string& text,
           const std::map<std::string, std::string>& let);

/// Every key of an experiment, as Markdown.
std::string experiment_reference();

} // namespace millrace

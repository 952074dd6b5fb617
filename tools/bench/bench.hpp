// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "millrace/progress.hpp"
#include "millrace/verbs.hpp"
#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// A measured figure, compared with a floor.
struct bench_row {
  std::string name;
  double value = 0;
  std::string unit;
  double floor = 0;
  std::string floor_name;
  double ratio = 0; ///< median of the ratios of the rounds
  MILLRACE_FIELDS(bench_row, name, value, unit, floor, floor_name, ratio)
};

/// The output of a bench with --json.
struct bench_report {
  std::string bench;
  std::vector<bench_row> results;
  MILLRACE_FIELDS(bench_report, bench, results)
};

/// Values of a figure and its floor, by round. Rounds are interleaved, so that
/// a drift of the machine's speed affects both alike.
class paired {
public:
  void add(double value, double floor) {
    values_.push_back(value);
    floors_.push_back(floor);
    ratios_.push_back(floor == 0 ? 0 : value / floor);
  }
  bench_row row(std::string name, std::string unit,
                std::string floor_name) const;

private:
  std::vector<double> values_, floors_, ratios_;
};

/// The results of a bench: a row for each figure and floor, in the order of
/// their first use.
class figures {
public:
  explicit figures(std::string of) : of_(std::move(of)) {}

  void add(const std::string& what, const char* unit, double ours, double floor,
           const char* floor_name) {
    auto i = std::find_if(rows_.begin(), rows_.end(), [&](auto& x) {
      return x.what == what && x.floor_name == floor_name;
    });
    if (i == rows_.end())
      i = rows_.insert(i, row{what, unit, floor_name, {}});
    i->values.add(ours, floor);
  }

  void append_to(bench_report& report) const {
    for (auto& r : rows_)
      report.results.push_back(
        r.values.row(of_ + " " + r.what, r.unit, r.floor_name));
  }

private:
  struct row {
    std::string what, unit, floor_name;
    paired values;
  };
  std::string of_;
  std::vector<row> rows_;
};

/// The seconds that a call takes.
template <class F>
double seconds_of(F f) {
  auto begun = steady_now();
  f();
  return to_seconds(steady_now() - begun);
}

/// The median; 0 without values.
double median(std::vector<double> xs);

/// Prints a report as a table, or as JSON.
void print_report(const bench_report& report, const common_options& common);

/// Options of benches with real nodes.
struct served_options {
  std::string models = "build/quickstart/bundles"; ///< folder of the bundles
  int rounds = 7;                                  ///< interleaved
};
struct timed_options : served_options {
  std::string length = "500ms"; ///< of each measurement; valid
};
void add_served_options(CLI::App& bench, served_options& options,
                        const std::string& bundles);
void add_timed_options(CLI::App& bench, timed_options& options,
                       const std::string& bundles);

/// Runs a bench with a progress bar, prints the report, and returns the exit
/// status.
int report_on(const std::string& name, const common_options& common,
              const std::function<result<bench_report>(progress_bar&)>& bench);

/// Adds the verb of one bench.
using bench_adder = void(CLI::App& app, common_options& common,
                         verb_action& run);
bench_adder add_path_bench, add_simulator_bench, add_decisions_bench,
  add_planner_bench, add_gpu_bench, add_pipeline_bench, add_cold_start_bench,
  add_copies_bench, add_chain_bench, add_selection_bench, add_policies_bench;

} // namespace millrace

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

/// One measured thing beside the floor it is held against.
struct bench_row {
  std::string name;
  double value = 0;
  std::string unit;
  double floor = 0;
  std::string floor_name;
  double ratio = 0; ///< median of the rounds' own ratios, not of the medians
  MILLRACE_FIELDS(bench_row, name, value, unit, floor, floor_name, ratio)
};

/// What a bench prints with --json.
struct bench_report {
  std::string bench;
  std::vector<bench_row> results;
  MILLRACE_FIELDS(bench_report, bench, results)
};

/// Values of one thing and its floor, round by round. Rounds are interleaved,
/// so that a machine whose speed drifts slows both alike.
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

/// What was found of one thing: a row for each figure and floor, in the order
/// in which they are met.
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

  void append_to(bench_report& x) const {
    for (auto& r : rows_)
      x.results.push_back(
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

/// How long it takes.
template <class F>
double seconds_of(F f) {
  auto begun = steady_now();
  f();
  return to_seconds(steady_now() - begun);
}

/// The median; 0 of nothing.
double median(std::vector<double> xs);

/// Prints it as a table, or as JSON.
void print_report(const bench_report& x, const common_options& common);

/// What benches with real nodes take.
struct served_options {
  std::string models = "build/quickstart/bundles"; ///< where bundles are
  int rounds = 7;                                  ///< interleaved
};
struct timed_options : served_options {
  std::string length = "500ms"; ///< of each measurement; it has been checked
};
void add_served_options(CLI::App& bench, served_options& x,
                        const std::string& bundles);
void add_timed_options(CLI::App& bench, timed_options& x,
                       const std::string& bundles);

/// Has a bench measured that takes a progress bar, prints what it found, and
/// is its exit status.
int report_on(const std::string& name, const common_options& common,
              const std::function<result<bench_report>(progress_bar&)>& bench);

/// Adds `bench simulator`.
void add_simulator_bench(CLI::App& bench, common_options& common,
                         verb_action& run);

/// Adds `bench policies`.
void add_policies_bench(CLI::App& bench, common_options& common,
                        verb_action& run);

/// Adds `bench selection`.
void add_selection_bench(CLI::App& bench, common_options& common,
                         verb_action& run);

/// Adds `bench planner`.
void add_planner_bench(CLI::App& bench, common_options& common,
                       verb_action& run);

/// Adds `bench pipeline`.
void add_pipeline_bench(CLI::App& bench, common_options& common,
                        verb_action& run);

/// Adds `bench coldstart`.
void add_cold_start_bench(CLI::App& bench, common_options& common,
                          verb_action& run);

/// Adds `bench copies`.
void add_copies_bench(CLI::App& bench, common_options& common,
                      verb_action& run);

/// Adds `bench chain`.
void add_chain_bench(CLI::App& bench, common_options& common, verb_action& run);

/// Adds `bench gpu`.
void add_gpu_bench(CLI::App& bench, common_options& common, verb_action& run);

/// Adds `bench decisions`.
void add_decisions_bench(CLI::App& bench, common_options& common,
                         verb_action& run);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "config/experiment.hpp"
#include "millrace/experiment_ledger.hpp"
#include "millrace/experiment_table.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;
using millrace::test::temporary_directory;

namespace {

const std::string plain_experiment = R"(name: e
says: about it
figure: "Paper, figure 1"
scenario: config/scenarios/small.yaml
seeds: 3
axes:
  - name: size
    quick: [small]
    values:
      - {name: small, set: [length=1s], let: {n: 2}}
      - {name: large, set: [length=2s], let: {n: 4}}
modes:
  - {name: slow, let: {source: store}}
  - {name: fast, let: {source: memory}, set: ["seed=$n"]}
measures:
  - name: start
    path: "starts[source=$source].mean"
    divide: $n
    over: size
ratios:
  - name: gain
    measure: start
    of: {mode: slow}
    to: {mode: fast}
    equal: [all.requests]
printed:
  - {measure: start, at: {size: small, mode: slow}, value: 3}
  - {ratio: gain, at: {size: large}, value: 9, place: elsewhere}
assertions:
  - {says: it is quick, measure: start, at: {mode: fast}, most: 3}
)";

std::string in_source(const std::string& path) {
  return std::string{MILLRACE_SOURCE} + "/" + path;
}

result<experiment> parsed(const std::string& text) {
  return parse_experiment(text, in_source("e.yaml"));
}

std::string changed(const std::string& from, const std::string& to) {
  auto text = plain_experiment;
  auto i = text.find(from);
  REQUIRE(i != std::string::npos);
  return text.replace(i, from.size(), to);
}

void refuses(const std::string& from, const std::string& to,
             const std::string& what) {
  auto x = parsed(changed(from, to));
  CAPTURE(to);
  REQUIRE(!x);
  auto& text = x.failure().text;
  CAPTURE(text);
  CHECK(text.find(in_source("e.yaml")) == 0);
  CHECK(text.find(what) != std::string::npos);
}

json summary_of_run(const std::string& source, double start, int requests) {
  return {{"all", {{"requests", requests}}},
          {"starts",
           {{{"source", "other"}, {"mean", 1000}},
            {{"source", source}, {"mean", start}}}}};
}

/// Runs of all cells for seeds 1 and 2. Slow ones take 8 and 12 s, fast ones 2
/// and 3 s; a large size doubles these times.
std::vector<cell_run> runs_of(const experiment_plan& plan) {
  std::vector<cell_run> out;
  for (auto& cell : plan.cells)
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      auto slow = cell.at.at("mode") == "slow";
      auto start = (slow ? 4.0 : 1.0) * static_cast<double>(1 + seed);
      if (cell.at.at("size") == "large")
        start *= 2;
      out.push_back({cell.at, seed,
                     summary_of_run(slow ? "store" : "memory", start, 100),
                     ""});
    }
  return out;
}

const figure_row& row_of(const experiment_table& x, const std::string& figure,
                         const cell_selector& at) {
  for (auto& row : x.rows)
    if (row.figure == figure && selects(at, row.at))
      return row;
  FAIL("no such row of " << figure);
  return x.rows.front();
}

} // namespace

TEST_CASE("statistics: the interval of a mean is from Student's t") {
  std::array xs{1.0, 2.0, 3.0, 4.0, 5.0};
  auto x = mean_with_interval(xs);
  CHECK(x.count == 5);
  CHECK(x.mean == doctest::Approx(3));
  // 2.7764 * sqrt(2.5 / 5)
  CHECK(x.half_width == doctest::Approx(1.96322).epsilon(1e-4));
}

TEST_CASE(
  "statistics: a single value has no interval and no value has no mean") {
  std::array one{7.0};
  CHECK(mean_with_interval(one).mean == 7);
  CHECK(mean_with_interval(one).half_width == 0);
  CHECK(mean_with_interval({}).count == 0);
}

TEST_CASE("statistics: quantiles of Student's t equal the published table") {
  CHECK(t_quantile(1) == doctest::Approx(12.7062));
  CHECK(t_quantile(4) == doctest::Approx(2.7764));
  CHECK(t_quantile(30) == doctest::Approx(2.0423));
  CHECK(t_quantile(31) == doctest::Approx(2.03951).epsilon(1e-4));
  CHECK(t_quantile(60) == doctest::Approx(2.00030).epsilon(1e-4));
  CHECK(t_quantile(1000) == doctest::Approx(1.96234).epsilon(1e-4));
  for (size_t n = 1; n < 100; ++n)
    CHECK(t_quantile(n) > t_quantile(n + 1));
}

TEST_CASE("statistics: means of ratios") {
  std::array xs{1.0, 4.0, 16.0};
  CHECK(arithmetic_mean(xs) == 7);
  CHECK(geometric_mean(xs) == doctest::Approx(4));
  std::array with_zero{0.0, 1.0};
  CHECK(std::isnan(geometric_mean(with_zero)));
}

TEST_CASE("experiment: cells are the combinations of values and modes with "
          "their options") {
  auto x = parsed(plain_experiment);
  REQUIRE(x);
  auto plan = plan_cells(*x, false, {});
  REQUIRE(plan);
  REQUIRE(plan->cells.size() == 4);
  auto& cell = plan->cells[3];
  CHECK(cell.at == cell_selector{{"size", "large"}, {"mode", "fast"}});
  CHECK(cell.set == std::vector<std::string>{"length=2s", "seed=4"});
  CHECK(plan_cells(*x, true, {})->cells.size() == 2);
  CHECK(plan_cells(*x, false, {"fast"})->cells.size() == 2);
  auto unknown = plan_cells(*x, false, {"fats"});
  REQUIRE(!unknown);
  CHECK(unknown.failure().code == ec::bad_request);
  CHECK(unknown.failure().text
        == "--mode: e has no mode 'fats' (did you mean 'fast'?); there are"
           " slow, fast");
}

TEST_CASE("experiment: an axis with a key sets it to the name of each value") {
  auto x =
    parsed(changed("    quick: [small]\n", "    key: workload[0].rate\n"));
  REQUIRE(x);
  auto plan = plan_cells(*x, false, {"slow"});
  REQUIRE(plan);
  CHECK(plan->cells[0].set
        == std::vector<std::string>{"workload[0].rate=small", "length=1s"});
}

TEST_CASE("experiment: an invalid file is refused with line and key") {
  refuses("small.yaml", "none.yaml", ":4: scenario: there is no file");
  refuses("      - {name: small, set: [length=1s], let: {n: 2}}\n"
          "      - {name: large, set: [length=2s], let: {n: 4}}\n",
          "      []\n", ": axes[0].values: is empty");
  refuses("axes:", "axis:", "unknown key 'axis' (did you mean 'axes'?)");
  refuses("name: large", "name: small",
          ": axes[0].values[1].name: 'small' is there twice");
  refuses("name: large", "name: mean",
          ": axes[0].values[1].name: expected a name other than mean");
  refuses("- name: size", "- name: mode",
          ": axes[0].name: axis 'mode' is there twice");
  refuses("[length=1s]", "[length]",
          ": axes[0].values[0].set[0]: expected KEY=VALUE, found 'length'");
  refuses("quick: [small]", "quick: [smal]",
          ": axes[0].quick[0]: there is no size 'smal' (did you mean"
          " 'small'?)");
  refuses("path: \"starts[source=$source]", "path: \"starts[source=$sauce]",
          ": measures[0].path: has a variable");
  refuses(", let: {source: store}", "", ": measures[0].path: has a variable");
  refuses("measure: start\n    of", "measure: stat\n    of",
          ": ratios[0].measure: there is no measure 'stat'");
  refuses("to: {mode: fast}", "to: {size: small}",
          ": ratios[0]: expected 'of' and 'to' to name the same axes");
  refuses("at: {size: large}, value: 9", "at: {size: large}",
          ": printed[1]: has no value");
  refuses("at: {mode: fast}, most", "at: {mood: fast}, most",
          ": assertions[0].at.mood: there is no axis 'mood'");
  refuses(", most: 3", "", ": assertions[0]: can never be false");
  refuses("most: 3", "most: 3, least: 4", ": assertions[0]: can never be true");
  refuses("seeds: 3", "seeds: 0", ":5: seeds: expected between 1 and 1000");
}

TEST_CASE("experiment: a modes list without modes is refused") {
  auto text = plain_experiment;
  auto from = text.find("modes:\n");
  auto to = text.find("measures:\n");
  auto x = parsed(text.replace(from, to - from, "modes: []\n"));
  REQUIRE(!x);
  CHECK(x.failure().text.find("modes: is empty") != std::string::npos);
}

TEST_CASE("experiment: figures are means over seeds next to the printed ones") {
  auto x = parsed(plain_experiment);
  auto plan = plan_cells(*x, false, {});
  auto found = evaluate(*x, *plan, runs_of(*plan));
  auto& row = row_of(found, "start", {{"size", "small"}, {"mode", "slow"}});
  CHECK(row.ours.count == 2);
  CHECK(row.ours.mean == doctest::Approx(5)); // (8 + 12) / 2, divided by 2
  CHECK(row.ours.half_width == doctest::Approx(12.7062));
  CHECK(row.printed == 3);
  CHECK(row.place == "Paper, figure 1");
  // The divisors are 2 and 4, so both sizes have the same value.
  auto& mean = row_of(found, "start", {{"size", "mean"}, {"mode", "fast"}});
  CHECK(mean.ours.mean == doctest::Approx(1.25));
  auto& ratio = row_of(found, "gain", {{"size", "large"}});
  CHECK(ratio.at.at("mode") == "slow / fast");
  CHECK(ratio.ours.mean == doctest::Approx(4));
  CHECK(ratio.ours.half_width == doctest::Approx(0));
  CHECK(ratio.place == "elsewhere");
  REQUIRE(found.assertions.size() == 1);
  CHECK(found.assertions[0].result == checked_assertion::outcome::holds);
}

TEST_CASE("experiment: a ratio of runs that differ in a quantity required to "
          "be equal is empty") {
  auto x = parsed(plain_experiment);
  auto plan = plan_cells(*x, false, {});
  auto runs = runs_of(*plan);
  for (auto& run : runs)
    if (run.seed == 2 && run.at.at("mode") == "fast"
        && run.at.at("size") == "small")
      run.found["all"]["requests"] = 99;
  auto found = evaluate(*x, *plan, runs);
  auto& row = row_of(found, "gain", {{"size", "small"}});
  CHECK(row.ours.count == 0);
  CHECK(row.empty == "the runs differ in all.requests: 100 and 99 (seed 2)");
  CHECK(row_of(found, "gain", {{"size", "large"}}).ours.count == 2);
  x->ratios[0].within = 0.02;
  CHECK(
    row_of(evaluate(*x, *plan, runs), "gain", {{"size", "small"}}).ours.count
    == 2);
}

TEST_CASE("experiment: an assertion fails beyond its bound and on a cell "
          "without a value") {
  using enum checked_assertion::outcome;
  auto x = parsed(plain_experiment);
  auto plan = plan_cells(*x, false, {});
  auto runs = runs_of(*plan);
  x->assertions[0].most = 1.2;
  auto found = evaluate(*x, *plan, runs);
  CHECK(found.assertions[0].result == fails);
  CHECK(found.assertions[0].found == "small, fast: 1.25, expected at most 1.2");
  x->assertions[0].most = 3;
  std::erase_if(runs, [](auto& run) { return run.at.at("mode") == "fast"; });
  found = evaluate(*x, *plan, runs);
  CHECK(found.assertions[0].result == fails);
  CHECK(found.assertions[0].found == "small, fast: not run yet");
  auto slow = plan_cells(*x, false, {"slow"});
  CHECK(evaluate(*x, *slow, runs).assertions[0].result == not_checked);
}

TEST_CASE(
  "experiment: an omitted cell is empty with its reason and so are its means") {
  auto x = parsed(plain_experiment
                  + "without: [{at: {size: large, mode: slow}, why: too"
                    " large}]\n");
  REQUIRE(x);
  auto plan = plan_cells(*x, false, {});
  auto runs = runs_of(*plan);
  auto found = evaluate(*x, *plan, runs);
  auto& row = row_of(found, "start", {{"size", "large"}, {"mode", "slow"}});
  CHECK(row.ours.count == 0);
  CHECK(row.left_out);
  CHECK(row.empty == "too large");
  CHECK(row_of(found, "start", {{"size", "mean"}, {"mode", "slow"}}).ours.count
        == 0);
  auto rows = printed_table(*plan, found);
  CHECK(std::count(rows[3].begin(), rows[3].end(), "(empty)") == 1);
}

TEST_CASE("experiment: no mean is computed over a part of an axis") {
  auto x = parsed(plain_experiment);
  auto plan = plan_cells(*x, true, {});
  for (auto& row : evaluate(*x, *plan, runs_of(*plan)).rows)
    CHECK(row.at.at("size") == "small");
}

TEST_CASE("experiment: a path that is not in the summary is named") {
  auto x = summary_of_run("store", 3, 9);
  CHECK(*number_at(x, "starts[source=store].mean") == 3);
  auto text = [&](const std::string& path) {
    auto found = number_at(x, path);
    return found ? std::string{"found"} : found.failure().text;
  };
  CHECK(text("starts[source=moon].mean")
        == "the run has no starts[source=moon] (starts[source=moon].mean)");
  CHECK(text("all.latency.mean_ms")
        == "the run has no latency (all.latency.mean_ms)");
  CHECK(text("all") == "all is no number");
  CHECK(text("starts[source].mean")
        == "the run has no starts[source] (starts[source].mean)");
}

TEST_CASE(
  "experiment: a ledger keeps finished runs and ignores a truncated line") {
  temporary_directory folder;
  auto path = folder.path() + "/ledger";
  auto x = parsed(plain_experiment);
  auto plan = plan_cells(*x, false, {});
  {
    experiment_ledger ledger;
    REQUIRE(ledger.open(path, "text"));
    for (auto& run : runs_of(*plan))
      for (auto& cell : plan->cells)
        if (cell.at == run.at)
          REQUIRE(ledger.add("cell", cell, run.seed, run.found));
  }
  auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, size - 5);
  experiment_ledger ledger;
  REQUIRE(ledger.open(path, "text"));
  CHECK(ledger.find(plan->cells[0], 1) == summary_of_run("store", 8, 100));
  CHECK(ledger.find(plan->cells[3], 1).has_value());
  CHECK_FALSE(ledger.find(plan->cells[3], 2));
  CHECK_FALSE(ledger.find(plan->cells[0], 3));
  REQUIRE(ledger.add("cell", plan->cells[3], 2, json{{"all", 1}}));
  experiment_ledger again;
  REQUIRE(again.open(path, "text"));
  CHECK(again.find(plan->cells[3], 2) == json{{"all", 1}});
  experiment_ledger of_another;
  REQUIRE(of_another.open(path, "another text"));
  CHECK_FALSE(of_another.find(plan->cells[0], 1));
  of_another.count_others(plan->cells, {1, 2});
  CHECK(of_another.other_lines() == 8);
}

TEST_CASE("experiment: a file that is no ledger is not written") {
  temporary_directory folder;
  auto path = folder.path() + "/notes";
  std::ofstream{path} << "my notes\n";
  experiment_ledger ledger;
  auto opened = ledger.open(path, "text");
  REQUIRE(!opened);
  CHECK(opened.failure().text == path + ": is no ledger of millrace reproduce");
  CHECK(std::filesystem::file_size(path) == 9);
}

TEST_CASE(
  "experiment: the files of config/experiments and all their cells are valid") {
  for (auto& file :
       std::filesystem::directory_iterator{in_source("config/experiments")}) {
    auto x = load_experiment(file.path().string());
    CAPTURE(file.path().string());
    REQUIRE_MESSAGE(x, x.failure().text);
    CHECK(x->name == file.path().stem().string());
    CHECK(!x->figure.empty());
    CHECK(plan_cells(*x, false, {}));
  }
}

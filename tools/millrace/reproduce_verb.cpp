// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <mutex>

#include "config/scenario.hpp"
#include "millrace/child.hpp"
#include "millrace/experiment_ledger.hpp"
#include "millrace/experiment_table.hpp"
#include "millrace/interrupt.hpp"
#include "millrace/progress.hpp"
#include "millrace/run_files.hpp"
#include "millrace/simulate_child.hpp"
#include "runtime/bytes.hpp"
#include "runtime/nearest.hpp"
#include "runtime/program_folder.hpp"

namespace millrace {

namespace {

constexpr size_t scenario_bytes_max = 4u << 20;

struct reproduce_options {
  std::string name;
  std::string folder;
  std::vector<std::string> modes;
  std::optional<uint64_t> seeds;
  std::string resume;
  std::string out;
  bool list = false;
  bool quick = false;
  bool keys = false;
};

/// The folder of experiments: given by option, in the source tree, or in the
/// package.
std::string experiments_folder(const reproduce_options& x) {
  namespace fs = std::filesystem;
  if (!x.folder.empty())
    return x.folder;
  if (fs::is_directory("config/experiments"))
    return "config/experiments";
  return (fs::path{program_folder()}
          / "../../share/millrace/config/experiments")
    .lexically_normal()
    .string();
}

int list_experiments(const reproduce_options& x, const common_options& common) {
  auto folder = experiments_folder(x);
  table rows{{"experiment", "figure", "about"}};
  auto list = json::array();
  for (auto& name : yaml_names_in(folder)) {
    auto found = load_experiment(folder + "/" + name + ".yaml");
    if (!found)
      return refuse(common, found.failure());
    rows.push_back({name, found->figure, found->says});
    list.push_back(
      {{"name", name}, {"figure", found->figure}, {"says", found->says}});
  }
  if (common.json)
    std::cout << json_text(list) << std::endl;
  else
    print_table(rows);
  return exit_ok;
}

/// The file of an experiment given by name or path. Errors: bad_request with
/// the known names.
result<std::string> file_of(const reproduce_options& x) {
  if (x.name.ends_with(".yaml") || x.name.find('/') != std::string::npos)
    return x.name;
  auto folder = experiments_folder(x);
  auto known = yaml_names_in(folder);
  if (std::count(known.begin(), known.end(), x.name) == 0)
    return error{
      ec::bad_request,
      "no experiment " + shown(x.name) + suggestion(x.name, known) + " in "
        + folder + "; there are "
        + (known.empty() ? "none" : joined(known, ", ", std::identity{})),
      {}};
  return folder + "/" + x.name + ".yaml";
}

/// A cell with one seed.
struct planned_run {
  const experiment_cell* cell = nullptr;
  uint64_t seed = 0;
};

/// Checks all cells' scenarios before any run. Returns the seed of the
/// scenario.
result<uint64_t> check_cells(const experiment& x, const experiment_plan& plan) {
  uint64_t seed = 1;
  for (auto& cell : plan.cells) {
    if (!cell.left_out.empty())
      continue;
    auto found = load_scenario(x.scenario, cell.set);
    if (!found)
      return error{found.failure().code,
                   x.name + ": cell " + name_of_cell(plan, cell.at) + ": "
                     + found.failure().text,
                   {}};
    seed = found->spec.seed;
  }
  return seed;
}

/// Runs the cells that are not in the ledger.
class cell_runner {
public:
  cell_runner(const experiment& x, const experiment_plan& plan,
              experiment_ledger& ledger)
    : x_(x),
      plan_(plan),
      ledger_(ledger) {}

  std::vector<cell_run> run(const std::vector<planned_run>& all, bool bar_too) {
    progress_bar bar{x_.name, bar_too};
    interruptible ctrl_c;
    std::vector<cell_run> out(all.size());
    do_all(
      all.size(), [&](size_t i) { out[i] = one(all[i], ctrl_c); },
      [&](size_t done) {
        bar.show(static_cast<double>(done) / static_cast<double>(all.size()),
                 std::to_string(done) + " of " + std::to_string(all.size())
                   + " runs");
      });
    bar.done();
    stopped_ = ctrl_c.happened();
    return out;
  }

  bool stopped() const { return stopped_; }
  size_t reused() const { return reused_; }
  /// The error of writing the ledger.
  const std::optional<error>& failed() const { return failed_; }

private:
  cell_run one(const planned_run& x, const interruptible& ctrl_c) {
    cell_run out{x.cell->at, x.seed, {}, {}};
    if (auto found = ledger_.find(*x.cell, x.seed)) {
      ++reused_;
      out.found = std::move(*found);
      return out;
    }
    if (ctrl_c.happened())
      return out;
    std::vector<std::string> arguments{"--seed", std::to_string(x.seed)};
    for (auto& y : x.cell->set)
      arguments.insert(arguments.end(), {"--set", y});
    auto got = simulate_in_child(x_.scenario, arguments);
    if (ctrl_c.happened() && !got.error.empty())
      return out; // ended by the interrupt
    out.found = std::move(got.found);
    out.error = std::move(got.error);
    if (out.error.empty())
      if (auto done = ledger_.add(name_of_cell(plan_, x.cell->at), *x.cell,
                                  x.seed, out.found);
          !done) {
        std::lock_guard guard{mutex_};
        failed_ = done.failure();
      }
    return out;
  }

  const experiment& x_;
  const experiment_plan& plan_;
  experiment_ledger& ledger_;
  bool stopped_ = false;
  std::atomic<size_t> reused_{0};
  std::optional<error> failed_;
  std::mutex mutex_;
};

std::string heading_of(const experiment& x,
                       const std::vector<uint64_t>& seeds) {
  auto out = x.name + ": " + x.says + "\n";
  out += "printed in   " + x.figure + "\n";
  out += "scenario     " + x.scenario + ", seeds "
         + std::to_string(seeds.front()) + " to " + std::to_string(seeds.back())
         + "\n\n";
  return out;
}

result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream file{path};
  file << text;
  file.close();
  if (!file)
    return error{ec::unavailable, path + ": cannot be written", {}};
  return {};
}

result<void> write_table(const std::string& directory, const std::string& text,
                         const std::string& csv, const json& all) {
  for (auto& [name, content] :
       {std::pair{"table.txt", text}, std::pair{"table.csv", csv},
        std::pair{"table.json", all.dump(2) + "\n"}})
    if (auto done = write_file(directory + "/" + name, content); !done)
      return done;
  return {};
}

/// Whether an assertion or a run failed, or runs are missing.
bool is_failure(const experiment_table& found,
                const std::vector<cell_run>& runs) {
  auto fails = [](auto& a) {
    return a.result == checked_assertion::outcome::fails;
  };
  return std::any_of(found.assertions.begin(), found.assertions.end(), fails)
         || std::any_of(runs.begin(), runs.end(),
                        [](auto& y) { return y.found.is_null(); });
}

int run_experiment(const reproduce_options& options, const experiment& x,
                   const experiment_plan& plan, uint64_t first_seed,
                   const common_options& common) {
  std::vector<uint64_t> seeds;
  for (uint64_t i = 0; i < options.seeds.value_or(options.quick ? 1 : x.seeds);
       ++i)
    seeds.push_back(first_seed + i);
  experiment_ledger ledger;
  if (!options.resume.empty()) {
    auto scenario = read_file(x.scenario, scenario_bytes_max);
    if (!scenario)
      return fail(common, scenario.failure());
    if (auto done = ledger.open(options.resume, *scenario); !done)
      return wrong_call(common, done.failure());
    ledger.count_others(plan.cells, seeds);
  }
  std::vector<planned_run> all;
  for (auto& cell : plan.cells)
    if (cell.left_out.empty())
      for (auto seed : seeds)
        all.push_back({&cell, seed});
  cell_runner runner{x, plan, ledger};
  auto runs = runner.run(all, !common.json);
  auto found = evaluate(x, plan, runs);
  auto lines = printed_table(plan, found);
  auto notes = notes_text(x, plan, found);
  auto everything = table_json(x, plan, found);
  if (!options.out.empty())
    if (auto done = write_table(
          options.out, heading_of(x, seeds) + table_text(lines) + "\n" + notes,
          csv_text(plan, found), everything);
        !done)
      return fail(common, done.failure());
  if (common.json) {
    std::cout << json_text(everything) << std::endl;
  } else {
    std::cout << heading_of(x, seeds) << std::flush;
    print_table(lines);
    std::cout << "\n" << notes << std::flush;
    if (!options.resume.empty())
      std::cerr << options.resume << ": " << runner.reused() << " of "
                << all.size() << " runs were finished; " << ledger.other_lines()
                << " lines of other runs" << std::endl;
    if (runner.stopped())
      std::cerr << "interrupted; --resume " << options.resume << " continues"
                << std::endl;
  }
  if (runner.failed())
    return fail(common, *runner.failed());
  return is_failure(found, runs) ? exit_failed : exit_ok;
}

int run_reproduce(const reproduce_options& x, const common_options& common) {
  if (x.keys) {
    std::cout << experiment_reference();
    return exit_ok;
  }
  if (x.list)
    return list_experiments(x, common);
  if (x.name.empty())
    return wrong_call(
      common, {ec::bad_request, "expected an experiment, or --list", {}});
  auto file = file_of(x);
  if (!file)
    return wrong_call(common, file.failure());
  auto what = load_experiment(*file);
  if (!what)
    return refuse(common, what.failure());
  auto plan = plan_cells(*what, x.quick, x.modes);
  if (!plan)
    return wrong_call(common, plan.failure());
  auto seed = check_cells(*what, *plan);
  if (!seed)
    return refuse(common, seed.failure());
  if (!x.out.empty())
    if (auto done = make_run_directory(x.out); !done)
      return wrong_call(common, done.failure());
  return run_experiment(x, *what, *plan, *seed, common);
}

} // namespace

void add_reproduce_verb(CLI::App& app, common_options& common,
                        verb_action& run) {
  auto x = std::make_shared<reproduce_options>();
  auto* verb = app.add_subcommand(
    "reproduce", "Run an experiment of the literature, and print its figures"
                 " and ours");
  verb->add_option("experiment", x->name,
                   "Name of the experiment, or its file");
  verb->add_flag("--list", x->list, "Print the experiments and end");
  verb->add_option("--mode", x->modes,
                   "Only this mode of the experiment; repeatable");
  verb->add_flag("--quick", x->quick,
                 "Only the cells that the experiment marks as quick, with one"
                 " seed");
  verb
    ->add_option("--seeds", x->seeds,
                 "Seeds for each cell; default: the experiment's")
    ->transform(whole_number(1, 1000));
  verb->add_option("--resume", x->resume,
                   "File of finished runs, created if missing: these runs are "
                   "not repeated, and new runs are added");
  verb->add_option("--out", x->out,
                   "Directory for table.txt, table.csv and"
                   " table.json");
  verb->add_option("--folder", x->folder,
                   "Folder of experiments; default: config/experiments, or"
                   " the package's");
  verb->add_flag("--options", x->keys,
                 "Print every key of an experiment's file and end");
  verb->add_flag("--json", common.json, "Print JSON");
  verb->callback([=, &common, &run] {
    run = [=, &common] { return run_reproduce(*x, common); };
  });
}

} // namespace millrace

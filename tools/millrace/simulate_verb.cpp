// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "millrace/explore.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "millrace/sweep.hpp"
#include "millrace/truth.hpp"
#include "runtime/text.hpp"
#include "simulator/simulation.hpp"
#include "simulator/tables.hpp"

namespace millrace {

namespace {

using namespace simulator;

struct simulate_options {
  std::string file;
  std::vector<std::string> set;
  std::vector<std::string> policy;
  std::vector<std::string> sweep;
  std::optional<uint64_t> seed;
  std::string out;
  std::optional<size_t> explore;
  std::optional<size_t> faults;
  std::string bug = "none";
  bool real = false;
  bool options = false;
};

/// "NAME=VALUE" of --policy as overrides of the scenario: each model gets it.
result<std::vector<std::string>>
policy_overrides(const std::vector<std::string>& policies,
                 const loaded_scenario& what) {
  std::vector<std::string> out;
  for (auto& p : policies)
    for (size_t i = 0; i < what.spec.models.size(); ++i)
      out.push_back("models[" + std::to_string(i) + "].policy." + p);
  if (!policies.empty() && what.spec.hosts.empty())
    return error{ec::bad_request,
                 "--policy: the models are in the cluster's config '"
                   + what.spec.cluster + "'; change them there",
                 {}};
  return out;
}

result<loaded_scenario> load(const simulate_options& x) {
  auto out = load_scenario(x.file, x.set);
  if (!out || x.policy.empty())
    return out;
  auto more = policy_overrides(x.policy, *out);
  if (!more)
    return more.failure();
  auto all = x.set;
  all.insert(all.end(), more->begin(), more->end());
  return load_scenario(x.file, all);
}

std::string percent(double x) {
  return fixed(100 * x, x < 0.001 && x > 0 ? 3 : 1) + " %";
}

void print_models(const run_summary& x) {
  std::vector<std::vector<std::string>> rows{{"model", "requests", "in time/s",
                                              "missed", "p50 ms", "p90", "p99",
                                              "p99.9", "max", "batch"}};
  auto add = [&](const served_summary& y, std::string name) {
    rows.push_back({std::move(name), std::to_string(y.requests),
                    fixed(y.goodput, 1), percent(y.slo_violations),
                    fixed(y.p50_ms, 2), fixed(y.p90_ms, 2), fixed(y.p99_ms, 2),
                    fixed(y.p999_ms, 2), fixed(y.max_ms, 2),
                    fixed(y.batch, 1)});
  };
  for (auto& y : x.models)
    add(y, y.model.empty() ? "(any)" : y.model);
  if (x.models.size() != 1)
    add(x.all, "all");
  print_table(rows);
}

template <class Map>
std::string listed(const Map& xs) {
  return joined(
    xs, ", ", [](auto& x) { return x.first + " " + std::to_string(x.second); });
}

void print_summary(const run_summary& x) {
  std::printf(
    "%s, seed %llu: %s of requests\n\n", x.scenario.c_str(),
    static_cast<unsigned long long>(x.seed),
    format_duration(microseconds{static_cast<int64_t>(x.seconds * 1e6)})
      .c_str());
  print_models(x);
  std::printf("\nanswers      %s\n", listed(x.all.statuses).c_str());
  std::printf("cold starts  %s%s\n",
              x.cold_starts.empty() ? "none" : listed(x.cold_starts).c_str(),
              x.failed_starts == 0
                ? ""
                : (", failed " + std::to_string(x.failed_starts)).c_str());
  std::printf("replicas     %.0f replica-seconds ready; devices busy %s of"
              " %.0f device-seconds\n",
              x.replica_seconds, percent(x.utilisation).c_str(),
              x.device_seconds);
  if (x.cost > 0)
    std::printf("cost         %.2f\n", x.cost);
  if (!x.faults.empty())
    std::printf("faults       %s\n", listed(x.faults).c_str());
  if (x.errors > 0)
    std::printf("errors       %llu events at which a person must act\n",
                static_cast<unsigned long long>(x.errors));
}

result<void> write_all(const loaded_scenario& what, const record& run,
                       const run_summary& found, const std::string& out) {
  if (auto done = write_tables(what, run, out); !done)
    return done;
  if (what.spec.record.trace)
    if (auto done = write_trace(what, run, out + "/trace.json"); !done)
      return done;
  std::ofstream file{out + "/summary.json"};
  file << to_json(found).dump(2) << '\n';
  file.close();
  if (!file)
    return error{ec::unavailable, out + "/summary.json: cannot be written", {}};
  return draw_plots(what, run, out);
}

int run_one(const simulate_options& x, const common_options& common) {
  auto what = load(x);
  if (!what) {
    fail(common, what.failure());
    return what.failure().code == ec::bad_config ? exit_bad_config
                                                 : exit_wrong_call;
  }
  simulation::options how;
  how.seed = x.seed.value_or(what->spec.seed);
  if (x.real)
    return run_truth(*what, how.seed, x.out.empty() ? "truth" : x.out, common);
  auto run = simulation::prepare(*what, how);
  if (!run)
    return fail(common, run.failure());
  recorder notes{what->spec.record, (*run)->begin(), what->spec.length};
  (*run)->add(notes);
  progress_bar bar{"simulate", !common.json};
  auto begun = std::chrono::steady_clock::now();
  auto took = [&] {
    return to_seconds(std::chrono::steady_clock::now() - begun);
  };
  (*run)->run([&](double part) {
    auto virtual_time = part * to_seconds(what->spec.length);
    bar.show(part, fixed(virtual_time, 0) + " s, "
                     + fixed(virtual_time / std::max(took(), 1e-9), 0)
                     + " times real time");
  });
  bar.done();
  auto messages = (*run)->inside().world().messages();
  auto actions = (*run)->inside().world().actions();
  if ((*run)->stuck())
    return fail(common, {ec::internal,
                         "time stands still: actors send each other messages"
                         " without end",
                         {}});
  (*run)->finish();
  auto real = took();
  auto kept = notes.take();
  auto found = summarise(*what, how.seed, kept);
  found.messages = messages;
  found.actions = actions;
  if (common.json)
    std::cout << to_json(found).dump() << std::endl;
  else
    print_summary(found);
  if (!x.out.empty())
    if (auto done = write_all(*what, kept, found, x.out); !done)
      return fail(common, done.failure());
  if (!common.json)
    std::fprintf(stderr, "%s%.2f s of real time, %.0f messages/s\n",
                 x.out.empty() ? "" : (x.out + "/ is written; ").c_str(), real,
                 static_cast<double>(messages) / std::max(real, 1e-9));
  return exit_ok;
}

int explore(const simulate_options& x, const common_options& common) {
  auto what = load(x);
  if (!what) {
    fail(common, what.failure());
    return what.failure().code == ec::bad_config ? exit_bad_config
                                                 : exit_wrong_call;
  }
  exploration how;
  how.faults = x.faults;
  how.bug = from_string<planted_bug>(x.bug).value_or(planted_bug::none);
  std::vector<std::string> again{"simulate", x.file, "--plant", x.bug};
  for (auto& y : x.set)
    again.insert(again.end(), {"--set", y});
  for (auto& y : x.policy)
    again.insert(again.end(), {"--policy", y});
  if (x.faults)
    again.insert(again.end(), {"--faults", std::to_string(*x.faults)});
  return run_explore(*what, x.seed.value_or(what->spec.seed), *x.explore, how,
                     again, common);
}

int run_simulate(const simulate_options& x, const common_options& common) {
  if (x.options) {
    std::cout << scenario_reference();
    return exit_ok;
  }
  if (x.file.empty()) {
    fail(common, {ec::bad_request, "expected a scenario's file", {}});
    return exit_wrong_call;
  }
  if (x.explore)
    return explore(x, common);
  if (x.sweep.empty())
    return run_one(x, common);
  std::vector<std::string> same;
  for (auto& y : x.set)
    same.insert(same.end(), {"--set", y});
  for (auto& y : x.policy)
    same.insert(same.end(), {"--policy", y});
  if (x.seed)
    same.insert(same.end(), {"--seed", std::to_string(*x.seed)});
  return run_sweep(x.file, x.sweep, same, x.out, common);
}

} // namespace

void add_simulate_verb(CLI::App& app, common_options& common,
                       verb_action& run) {
  auto x = std::make_shared<simulate_options>();
  auto* verb = app.add_subcommand(
    "simulate", "Run a scenario's cluster on the virtual clock");
  verb->add_option("scenario", x->file,
                   "The scenario, such as config/scenarios/small.yaml");
  verb->add_option("--seed", x->seed, "Seed; default: the scenario's");
  verb->add_option("--set", x->set,
                   "KEY=VALUE replaces an option of the scenario, such as"
                   " network.host.speed=1Gbit/s; again for more");
  verb->add_option("--policy", x->policy,
                   "NAME=VALUE replaces a serving policy of every model, such"
                   " as dispatch=round_robin or batch=1; again for more");
  verb->add_option("--sweep", x->sweep,
                   "KEY=A,B,C runs each variant, as many at once as there are"
                   " cores, and prints one table; again for all combinations");
  verb->add_option("--out", x->out,
                   "Directory for tables, pictures and a trace of the run");
  verb
    ->add_option("--explore", x->explore,
                 "Run so many seeds with faults drawn by chance, and check"
                 " every promise after every event")
    ->check(CLI::Range(1, 100'000'000));
  verb->add_option("--faults", x->faults,
                   "With --explore: only so many of a seed's faults, from the"
                   " first");
  constexpr auto bugs = names_of(planted_bug{});
  verb
    ->add_option("--plant", x->bug,
                 "With --explore: a bug in the simulated world, to see that"
                 " it is found")
    ->check(CLI::IsMember(
      std::vector<std::string>(std::begin(bugs), std::end(bugs))));
  verb->add_flag("--real", x->real,
                 "Run it as real processes on this host too, and write a page"
                 " (--out, default: truth) that compares the two");
  verb->add_flag("--options", x->options,
                 "Print every option of a scenario and end");
  verb->add_flag("--json", common.json, "Print JSON");
  verb->callback([=, &common, &run] {
    run = [=, &common] { return run_simulate(*x, common); };
  });
}

} // namespace millrace

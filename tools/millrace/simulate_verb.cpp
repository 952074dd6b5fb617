// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <iostream>

#include "millrace/decision_file.hpp"
#include "millrace/explore.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "millrace/real_faults.hpp"
#include "millrace/run_files.hpp"
#include "millrace/sweep.hpp"
#include "millrace/truth.hpp"
#include "runtime/text.hpp"
#include "simulator/invariants.hpp"
#include "simulator/simulation.hpp"

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
  bool part = false;
  bool real = false;
  bool options = false;
};

/// Converts "NAME=VALUE" of --policy to overrides for each model.
result<std::vector<std::string>>
policy_overrides(const std::vector<std::string>& policies,
                 const loaded_scenario& what) {
  std::vector<std::string> out;
  for (auto& p : policies)
    if (auto equals = p.find('=');
        equals == std::string::npos || equals == 0 || equals + 1 == p.size())
      return error{ec::bad_request,
                   "--policy: expected NAME=VALUE, found " + shown(p),
                   {}};
    else
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

/// Calls f(summary, name) for each model and, with several models, for all
/// models together.
template <class F>
void for_each_served(const run_summary& x, F f) {
  for (auto& y : x.models)
    f(y, y.model.empty() ? std::string{"(any)"} : y.model);
  if (x.models.size() != 1)
    f(x.all, std::string{"all"});
}

void print_models(const run_summary& x) {
  std::vector<std::vector<std::string>> rows{
    {"model", "requests", "in time/s", "missed", "batch"}};
  for_each_served(x, [&](const served_summary& y, std::string name) {
    rows.push_back({std::move(name), std::to_string(y.requests),
                    fixed(y.goodput, 1), percent(y.slo_violations),
                    y.batch > 0 ? fixed(y.batch, 1) : "-"});
  });
  print_table(rows);
}

/// Prints the latencies of all requests and, if some answers were not ok, of
/// the ok ones.
void print_latencies(const run_summary& x) {
  std::vector<std::vector<std::string>> rows{{"latency, ms", "of", "mean",
                                              "p50", "p75", "p90", "p95", "p99",
                                              "p99.9", "max"}};
  auto add = [&](const std::string& name, const char* of,
                 const latency_summary& y) {
    rows.push_back({name, of});
    for (auto z : {y.mean_ms, y.p50_ms, y.p75_ms, y.p90_ms, y.p95_ms, y.p99_ms,
                   y.p999_ms, y.max_ms})
      rows.back().push_back(y.requests == 0 ? "-" : fixed(z, 2));
  };
  for_each_served(x, [&](const served_summary& y, const std::string& name) {
    add(name, "all", y.latency);
    if (y.latency_ok.requests != y.requests)
      add(name, "ok", y.latency_ok);
  });
  std::printf("\n");
  print_table(rows);
}

void print_use(const run_summary& x) {
  for (auto& y : x.starts)
    std::printf(
      "  %-10s %llu from decision to ready: mean %.2f s (bytes %.2f,"
      " %.2f until the load begins, %.2f to load), p50 %.2f, p99 %.2f, max"
      " %.2f\n",
      y.source.c_str(), static_cast<unsigned long long>(y.count), y.mean,
      y.fetch_mean, y.until_load_mean, y.load_mean, y.p50, y.p99, y.max);
  std::printf("replicas     %.0f replica-seconds reserved, %.0f ready, %.0f"
              " busy\n",
              x.reserved_replica_seconds, x.replica_seconds,
              x.busy_replica_seconds);
  for (auto& y : x.devices)
    std::printf("  %-10s %llu devices: %.0f device-seconds, %.0f reserved, %.0f"
                " busy (%s)\n",
                y.kind.c_str(), static_cast<unsigned long long>(y.devices),
                y.available_seconds, y.reserved_seconds, y.busy_seconds,
                percent(y.utilisation).c_str());
  constexpr size_t links_printed = 3;
  for (size_t i = 0; i < std::min(links_printed, x.links.size()); ++i)
    std::printf("%s%s: %s carried (%s)\n",
                i == 0 ? "links        " : "             ",
                x.links[i].link.c_str(),
                format_bytes(static_cast<uint64_t>(x.links[i].bytes)).c_str(),
                percent(x.links[i].utilisation).c_str());
}

void print_summary(const run_summary& x) {
  std::printf(
    "%s, seed %llu: %s of requests\n\n", x.scenario.c_str(),
    static_cast<unsigned long long>(x.seed),
    format_duration(microseconds{static_cast<int64_t>(x.seconds * 1e6)})
      .c_str());
  print_models(x);
  print_latencies(x);
  std::printf("\nanswers      %s%s\n", listed(x.all.statuses).c_str(),
              x.all_ok ? "; all ok" : "");
  auto& goodput = x.all.goodput_at_slo_times;
  std::printf("goodput      per second within 1, 1.5, 2, 3 times the SLO: %s\n",
              joined(std::array{"1", "1.5", "2", "3"}, ", ", [&](auto* k) {
                return fixed(goodput.at(k), 1);
              }).c_str());
  std::printf("cold starts  %s%s\n",
              x.cold_starts.empty() ? "none" : listed(x.cold_starts).c_str(),
              x.failed_starts == 0
                ? ""
                : (", failed " + std::to_string(x.failed_starts)).c_str());
  print_use(x);
  if (!x.never_ready.empty())
    std::printf("never ready  %s: no replica was ever loaded\n",
                joined(x.never_ready, ", ", [](auto& m) { return m; }).c_str());
  if (x.store_bytes > 0)
    std::printf("store        sent %s\n", format_bytes(x.store_bytes).c_str());
  if (x.cost > 0)
    std::printf("cost         %.2f reserved, %.2f used\n", x.cost, x.cost_used);
  for (auto& y : x.pools)
    if (!y.pool.empty())
      std::printf("  pool %-10s %llu machines: %.2f hours reserved, %.2f used;"
                  " cost %.2f and %.2f\n",
                  y.pool.c_str(), static_cast<unsigned long long>(y.machines),
                  y.hours_reserved, y.hours_used, y.cost_reserved, y.cost_used);
  if (!x.faults.empty())
    std::printf("faults       %s\n", listed(x.faults).c_str());
  if (x.errors > 0)
    std::printf("errors       %llu events at which a person must act\n",
                static_cast<unsigned long long>(x.errors));
}

/// The inputs of the latest decisions, from the first running controller.
decision_records decisions_of(const loaded_scenario& what, simulation& run) {
  for (auto& [name, node] : what.cluster.nodes)
    if (std::count(node.roles.begin(), node.roles.end(), node_role::controller)
        > 0)
      if (auto x = run.ask<decision_records>(name, "autoscaler",
                                             get_decision_records{}))
        return *x;
  return {};
}

int run_one(const loaded_scenario& what, const simulate_options& x,
            const common_options& common) {
  simulation::options how;
  how.seed = x.seed.value_or(what.spec.seed);
  auto run = simulation::prepare(what, how);
  if (!run)
    return refuse(common, run.failure());
  recorder notes{(*run)->begin(), what.spec.length};
  (*run)->add(notes);
  auto conservation = make_conservation(what);
  (*run)->add(*conservation);
  progress_bar bar{"simulate", !common.json};
  auto begun = steady_now();
  auto took = [&] { return to_seconds(steady_now() - begun); };
  (*run)->run([&](double part) {
    auto virtual_time = part * to_seconds(what.spec.length);
    bar.show(part, fixed(virtual_time, 0) + " s, "
                     + fixed(virtual_time / std::max(took(), 1e-9), 0)
                     + " times real time");
  });
  bar.done();
  auto messages = (*run)->inside().world().messages();
  auto actions = (*run)->inside().world().actions();
  if ((*run)->stuck())
    return fail(common,
                {ec::internal,
                 "livelock: actors send each other messages without end",
                 {}});
  conservation->at_end(**run);
  if (auto broken = conservation->found(); !broken.empty())
    return fail(
      common,
      {ec::internal, "bug in the simulator: " + broken.front().what, {}});
  auto decided = decisions_of(what, **run);
  (*run)->finish();
  auto real = took();
  auto kept = notes.take();
  kept.links = (*run)->links();
  auto found = summarise(what, how.seed, kept);
  found.messages = messages;
  found.actions = actions;
  if (!x.out.empty()) {
    if (auto done = write_run(what, kept, found, x.out); !done)
      return fail(common, done.failure());
    if (auto done = write_decisions(x.out + "/decisions.record", decided);
        !done)
      return fail(common, done.failure());
  }
  if (common.json)
    std::cout << json_text(to_json(found)) << std::endl;
  else
    print_summary(found);
  if (!common.json)
    std::fprintf(stderr, "%s%.2f s of real time, %.0f messages/s\n",
                 x.out.empty() ? "" : (x.out + "/ written; ").c_str(), real,
                 static_cast<double>(messages) / std::max(real, 1e-9));
  return exit_ok;
}

/// The arguments that define the scenario, for child processes.
std::vector<std::string> same_scenario(const simulate_options& x) {
  std::vector<std::string> out;
  for (auto& y : x.set)
    out.insert(out.end(), {"--set", y});
  for (auto& y : x.policy)
    out.insert(out.end(), {"--policy", y});
  return out;
}

/// Options set on the command line are not varied.
void keep_what_was_set(const simulate_options& x,
                       std::vector<variation>& vary) {
  std::vector<std::string> keys;
  for (auto& y : x.policy)
    keys.push_back("models[].policy." + y.substr(0, y.find('=')));
  for (auto& y : x.set) {
    keys.push_back(y.substr(0, y.find('=')));
    std::erase_if(keys.back(), [](unsigned char c) { return std::isdigit(c); });
  }
  auto was_set = [&](const std::string& option) {
    return std::any_of(keys.begin(), keys.end(), [&](auto& key) {
      return option == key || option.starts_with(key + ".")
             || option.starts_with(key + "[");
    });
  };
  std::erase_if(vary, [&](variation y) {
    auto options = options_of(y);
    return std::any_of(options.begin(), options.end(), was_set);
  });
}

/// Why the scenario cannot be run with these options; empty if it can.
std::optional<error> called_wrongly(const loaded_scenario& what,
                                    const simulate_options& x) {
  auto no = [](std::string why) {
    return error{ec::bad_request, std::move(why), {}};
  };
  auto faults = !what.spec.faults.empty();
  auto first = x.seed.value_or(what.spec.seed);
  if (x.explore && !x.out.empty() && *x.explore != 1)
    return no("--out: with --explore, only for one seed (--explore 1)");
  if (x.explore && faults)
    return no("--explore: draws its own faults, but the scenario has faults "
              "(remove them with --set 'faults=[]')");
  if (x.explore && first + *x.explore < first)
    return no("--seed: too large for the number of seeds");
  if (x.real)
    if (auto fine = check_real_faults(what.spec.faults); !fine)
      return no("--real: " + fine.failure().text
                + "; remove them (--set 'faults=[]')");
  if (x.real && !what.cluster.pools.empty())
    return no("--real: the scenario has pools, and machines are simulated "
              "only; remove them (hosts[].pool and pools)");
  if (auto nodes = what.cluster.nodes.size(); x.real && nodes > most_real_nodes)
    return no("--real: the scenario has " + std::to_string(nodes)
              + " nodes, each a process; at most "
              + std::to_string(most_real_nodes));
  return std::nullopt;
}

int explore(loaded_scenario what, const simulate_options& x,
            const common_options& common) {
  explore_call call{x.file,
                    same_scenario(x),
                    x.seed.value_or(what.spec.seed),
                    *x.explore,
                    {},
                    x.part,
                    x.out};
  keep_what_was_set(x, what.spec.explore.vary);
  call.how.faults = x.faults;
  call.how.bug = from_string<planted_bug>(x.bug).value_or(planted_bug::none);
  if (call.how.bug != planted_bug::none)
    call.same.insert(call.same.end(), {"--plant", x.bug});
  return run_explore(what, call, common);
}

int sweep(const simulate_options& x, const common_options& common) {
  auto same = same_scenario(x);
  if (x.seed)
    same.insert(same.end(), {"--seed", std::to_string(*x.seed)});
  return run_sweep(x.file, x.sweep, same, x.out, common);
}

int run_simulate(simulate_options x, const common_options& common) {
  if (x.options) {
    std::cout << scenario_reference();
    return exit_ok;
  }
  if (x.file.empty())
    return wrong_call(common,
                      {ec::bad_request, "expected a scenario's file", {}});
  auto what = load(x);
  if (!what)
    return what.failure().code == ec::bad_request
             ? wrong_call(common, what.failure())
             : refuse(common, what.failure());
  if (auto why = called_wrongly(*what, x))
    return wrong_call(common, *why);
  if (x.real && x.out.empty())
    x.out = "truth";
  if (!x.out.empty())
    if (auto done = make_run_directory(x.out); !done)
      return wrong_call(common, done.failure());
  if (x.explore)
    return explore(*what, x, common);
  if (!x.sweep.empty())
    return sweep(x, common);
  if (x.real)
    return run_truth(*what, x.seed.value_or(what->spec.seed), x.out, common);
  return run_one(*what, x, common);
}

} // namespace

void add_simulate_verb(CLI::App& app, common_options& common,
                       verb_action& run) {
  auto x = std::make_shared<simulate_options>();
  auto* verb = app.add_subcommand(
    "simulate", "Run a scenario's cluster on the virtual clock");
  verb->add_option("scenario", x->file,
                   "The scenario, such as config/scenarios/small.yaml");
  verb->add_option("--seed", x->seed, "Seed; default: the scenario's")
    ->transform(whole_number());
  verb->add_option("--set", x->set,
                   "KEY=VALUE replaces an option of the scenario, such as "
                   "network.host.speed=1Gbit/s; repeatable");
  verb->add_option("--policy", x->policy,
                   "NAME=VALUE replaces a serving policy of every model, such "
                   "as dispatch=round_robin or batch=1; repeatable");
  auto* sweep = verb->add_option(
    "--sweep", x->sweep,
    "KEY=A,B,C runs each variant, in as many processes as there are cores, and "
    "prints one table; repeatable, for all combinations");
  verb->add_option("--out", x->out,
                   "Directory for tables, plots and a trace of the run");
  auto* explore = verb
                    ->add_option("--explore", x->explore,
                                 "Run this many seeds with random faults, and "
                                 "check every invariant after every event")
                    ->transform(whole_number(1, 100'000'000))
                    ->excludes(sweep);
  verb
    ->add_option("--faults", x->faults,
                 "With --explore: inject only the first N of a seed's faults")
    ->needs(explore)
    ->transform(whole_number());
  // for our child processes
  verb->add_flag("--part", x->part)->group("")->needs(explore);
  constexpr auto bugs = names_of(planted_bug{});
  verb
    ->add_option("--plant", x->bug,
                 "With --explore: inject this bug into the simulated world, to "
                 "test that it is found")
    ->check(
      CLI::IsMember(std::vector<std::string>(std::begin(bugs), std::end(bugs))))
    ->needs(explore);
  verb
    ->add_flag("--real", x->real,
               "Run the scenario as real processes on this host too, and write "
               "a page (--out, default: truth) that compares both")
    ->excludes(sweep)
    ->excludes(explore);
  verb->add_flag("--options", x->options,
                 "Print every option of a scenario and end");
  verb->add_flag("--json", common.json, "Print JSON");
  verb->callback([=, &common, &run] {
    run = [=, &common] { return run_simulate(*x, common); };
  });
}

} // namespace millrace

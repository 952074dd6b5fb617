// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "simulator/samples.hpp"
#include "simulator/simulation.hpp"

namespace millrace {

namespace {

struct simulate_options {
  std::string file;
  std::vector<std::string> set;
  std::optional<uint64_t> seed;
};

int run_simulate(const simulate_options& x, const common_options& common) {
  auto what = load_scenario(x.file, x.set);
  if (!what)
    return fail(common, what.failure());
  auto seed = x.seed.value_or(what->spec.seed);
  auto run = simulator::simulation::prepare(*what, seed);
  if (!run)
    return fail(common, run.failure());
  progress_bar bar{"simulate", !common.json};
  auto begun = std::chrono::steady_clock::now();
  (*run)->run([&](double part) { bar.show(part); });
  bar.done();
  auto took = to_seconds(std::chrono::steady_clock::now() - begun);
  auto& found = (*run)->found();
  samples latency;
  std::map<ec, size_t> by;
  for (auto& r : found.requests) {
    ++by[r.status];
    if (r.status == ec::ok)
      latency.add(1e3 * to_seconds(r.answered - r.sent));
  }
  std::printf("%zu requests in %.2f s real; %.0f messages/s (%lu messages, %lu"
              " actions, %lu delivered) p50 %.3f p99 %.3f ms\n",
              found.requests.size(), took,
              static_cast<double>(found.messages) / took, found.messages,
              found.actions, found.delivered, latency.quantile(.5),
              latency.quantile(.99));
  for (auto& [s, n] : by)
    std::printf("  %s %zu\n", std::string{to_string(s)}.c_str(), n);
  return exit_ok;
}

} // namespace

void add_simulate_verb(CLI::App& app, common_options& common,
                       verb_action& run) {
  auto x = std::make_shared<simulate_options>();
  auto* verb = app.add_subcommand(
    "simulate", "Run a cluster of a scenario file on the virtual clock");
  verb->add_option("scenario", x->file, "The scenario")->required();
  verb->add_option("--seed", x->seed, "Seed; default: the scenario's");
  verb->add_option("--set", x->set, "KEY=VALUE replaces an option");
  verb->add_flag("--json", common.json, "Print JSON");
  verb->callback([=, &common, &run] {
    run = [=, &common] { return run_simulate(*x, common); };
  });
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "actors/policies/place/least_loaded.hpp"
#include "actors/policies/rollout/reconcile.hpp"
#include "actors/policies/state/configured_groups.hpp"
#include "bench/large_cluster.hpp"
#include "bench/trace_cluster.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"

namespace millrace {

namespace {

struct decision_options {
  int rounds = 11;
  bool yaml = false;
  std::string nodes; ///< file of a trace; empty: none
  std::string pods;
};

constexpr std::array<uint64_t, 5> sizes{1, 10, 100, 1000, 10'000};
constexpr uint64_t devices_per_node = 8;

/// Nodes with enough devices for one replica each, and without replicas.
cluster_view empty_cluster(uint64_t devices) {
  cluster_view out;
  model_info model;
  model.model = "m";
  model.version = 1;
  model.bytes = 1;
  for (uint64_t d = 0; d < devices; ++d) {
    auto name = "node-" + std::to_string(d / devices_per_node);
    auto& node = out.nodes[name];
    node.node.name = name;
    node.models = {model};
    device_info device;
    device.id = "gpu" + std::to_string(d % devices_per_node);
    node.devices.push_back(device);
  }
  return out;
}

bench_row measure(uint64_t replicas, int rounds) {
  auto view = empty_cluster(replicas);
  model_state model;
  model.settings.model = "m";
  model.settings.replicas = replicas;
  model.scope = "model/m";
  model.version = 1;
  model.bundle = view.nodes.begin()->second.models.front();
  wanted_groups wanted{
    std::make_shared<const model_state>(model), *configured_groups(model), {}};
  paired times;
  for (int i = 0; i < rounds; ++i) {
    auto floor = seconds_of([&] {
      auto copy = view;
      if (copy.nodes.empty())
        std::abort();
    });
    auto ours = seconds_of([&] {
      auto plan = reconcile(view, {wanted}, least_loaded_placement{{}}, {});
      if (plan.deploy.size() != replicas)
        std::abort();
    });
    times.add(1e6 * ours, 1e6 * floor);
  }
  return times.row("placement, " + std::to_string(replicas) + " replicas", "us",
                   "copying the read state");
}

int run_bench(const decision_options& x, const common_options& common) {
  if (!x.nodes.empty())
    return report_on(
      "decisions", common, [&](progress_bar&) -> result<bench_report> {
        auto rows = measure_trace_cluster(x.nodes, x.pods, x.rounds);
        if (!rows)
          return rows.failure();
        return bench_report{"decisions", std::move(*rows)};
      });
  progress_bar bar{"bench decisions", !common.json};
  bench_report report{"decisions", {}};
  for (size_t i = 0; i < sizes.size(); ++i) {
    bar.show(static_cast<double>(i) / sizes.size());
    report.results.push_back(measure(sizes[i], x.rounds));
  }
  for (auto& row : measure_large_cluster(x.rounds))
    report.results.push_back(std::move(row));
  bar.done();
  if (!x.yaml) {
    print_report(report, common);
    return exit_ok;
  }
  std::printf("decisions:\n  placement:\n");
  for (size_t i = 0; i < sizes.size(); ++i)
    std::printf("    %llu: %.0fus\n", static_cast<unsigned long long>(sizes[i]),
                std::max(1.0, report.results[i].value));
  std::printf("  scaling:\n    1000: %.0fus\n",
              1e3 * report.results[sizes.size() + 1].value);
  return exit_ok;
}

} // namespace

void add_decisions_bench(CLI::App& bench, common_options& common,
                         verb_action& run) {
  auto x = std::make_shared<decision_options>();
  auto* verb = bench.add_subcommand(
    "decisions",
    "Time of the controller's decisions, by the size of the cluster");
  verb->add_option("nodes", x->nodes,
                   "Nodes of a trace, in place of made-up clusters: CSV with"
                   " sn, cpu_milli, memory_mib, gpu, gzipped or not");
  verb->add_option(
    "--pods", x->pods,
    "Pods of the trace: CSV with name, cpu_milli, memory_mib, num_gpu,"
    " gpu_milli; default: the file next to the nodes");
  verb->add_option("--rounds", x->rounds, "Interleaved rounds")
    ->transform(whole_number(1, 1000))
    ->capture_default_str();
  verb->add_flag("--yaml", x->yaml,
                 "Print the table for 'decisions' of a scenario");
  verb->add_flag("--json", common.json, "Print JSON");
  verb->callback([=, &common, &run] {
    run = [=, &common] { return run_bench(*x, common); };
  });
}

} // namespace millrace

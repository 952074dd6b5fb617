// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.hpp"
#include "millrace/print.hpp"

int main(int argc, char** argv) {
  using namespace millrace;
  CLI::App app{"Measures one thing against its floor, interleaved, in one run.",
               "millrace-bench"};
  app.require_subcommand(1);
  app.set_version_flag("--version", MILLRACE_VERSION);
  common_options common;
  verb_action run;
  for (auto* add : {add_path_bench, add_simulator_bench, add_decisions_bench,
                    add_planner_bench, add_gpu_bench, add_pipeline_bench,
                    add_cold_start_bench, add_copies_bench, add_chain_bench,
                    add_selection_bench, add_policies_bench})
    add(app, common, run);
  return run_program(app, common, run, argc, argv);
}

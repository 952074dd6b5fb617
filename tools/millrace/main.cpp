// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "millrace/manual.hpp"
#include "millrace/print.hpp"
#include "runtime/text.hpp"

int main(int argc, char** argv) {
  using namespace millrace;
  CLI::App app{"Millrace serves deep-learning inference on a cluster of nodes.",
               "millrace"};
  app.require_subcommand(1);
  app.set_version_flag("--version", MILLRACE_VERSION);
  common_options common;
  verb_action run;
  add_node_verb(app, common, run);
  add_model_verb(app, common, run);
  add_infer_verb(app, common, run);
  add_load_verb(app, common, run);
  add_simulate_verb(app, common, run);
  add_reproduce_verb(app, common, run);
  add_store_verb(app, common, run);
  add_decide_verb(app, common, run);
  add_keys_verb(app, common, run);
  add_bench_verb(app, common, run);
  add_manual(
    app,
    {"serve deep-learning inference on a cluster", {}, {"actor-shell(1)"}});
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    // CLI11 would only say that a verb is missing.
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty())
      std::cerr << "no verb " << shown(argv[1]) << "; there are "
                << joined(app.get_subcommands(nullptr), ", ",
                          [](auto* x) { return x->get_name(); })
                << std::endl;
    else if (app.exit(e) == 0)
      return exit_ok;
    return exit_wrong_call;
  }
  try {
    return all_written(run());
  } catch (const std::exception& e) { // memory, threads: what has no better end
    return fail(common, {ec::internal, e.what(), {}});
  }
}

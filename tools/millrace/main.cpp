// SPDX-License-Identifier: Apache-2.0
#include "millrace/manual.hpp"
#include "millrace/print.hpp"

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
  add_manual(
    app,
    {"serve deep-learning inference on a cluster", {}, {"actor-shell(1)"}});
  return run_program(app, common, run, argc, argv);
}

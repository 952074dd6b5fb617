// SPDX-License-Identifier: Apache-2.0
#include "millrace/verbs.hpp"

int main(int argc, char** argv) {
  using namespace millrace;
  CLI::App app{
    "Millrace serves deep-learning inference on a cluster of nodes."};
  app.require_subcommand(1);
  app.set_version_flag("--version", MILLRACE_VERSION);
  common_options common;
  verb_action run;
  add_node_verb(app, common, run);
  add_model_verb(app, common, run);
  add_infer_verb(app, common, run);
  add_load_verb(app, common, run);
  add_bench_verb(app, common, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? exit_ok : exit_wrong_call;
  }
  return run();
}

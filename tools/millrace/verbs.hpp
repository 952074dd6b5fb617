// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace millrace {

/// Exit statuses of every verb.
enum exit_status : int {
  exit_ok = 0,
  exit_failed = 1,      ///< the work failed
  exit_wrong_call = 2,  ///< the command line makes no sense
  exit_bad_config = 78, ///< a configuration was refused
};

/// A verb adds its subcommand; what it returns runs after parsing, if the
/// subcommand was given.
using verb_action = std::function<int()>;

/// Options that every verb takes.
struct common_options {
  bool json = false;
};

/// Whom a verb that submits requests talks to, and as whom.
struct client_options {
  std::string gateway = "tcp://127.0.0.1:7100";
  std::string key;
};

/// A verb below a verb: takes --json, and has the action run when it was given.
CLI::App* add_subverb(CLI::App& parent, const std::string& name,
                      const std::string& text, common_options& common,
                      verb_action& run, verb_action action);

void add_client_options(CLI::App& verb, client_options& x);

void add_node_verb(CLI::App& app, common_options& common, verb_action& run);
void add_model_verb(CLI::App& app, common_options& common, verb_action& run);
/// These add `model layers` and `model cuts`.
void add_layers_verb(CLI::App& model, common_options& common, verb_action& run);
void add_cuts_verb(CLI::App& model, common_options& common, verb_action& run);
void add_infer_verb(CLI::App& app, common_options& common, verb_action& run);
void add_load_verb(CLI::App& app, common_options& common, verb_action& run);
void add_simulate_verb(CLI::App& app, common_options& common, verb_action& run);
void add_reproduce_verb(CLI::App& app, common_options& common,
                        verb_action& run);
void add_decide_verb(CLI::App& app, common_options& common, verb_action& run);
void add_store_verb(CLI::App& app, common_options& common, verb_action& run);
void add_keys_verb(CLI::App& app, common_options& common, verb_action& run);
void add_bench_verb(CLI::App& app, common_options& common, verb_action& run);

} // namespace millrace

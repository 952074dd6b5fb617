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
  exit_wrong_call = 2,  ///< invalid command line
  exit_bad_config = 78, ///< a configuration was refused
};

/// The result of adding a verb's subcommand; runs after parsing, if the command
/// line has the subcommand.
using verb_action = std::function<int()>;

/// Options that every verb takes.
struct common_options {
  bool json = false;
};

/// The gateway and the key of a verb that sends requests.
struct client_options {
  std::string gateway = "tcp://127.0.0.1:7100";
  std::string key;
};

/// Adds a subverb with --json; `action` runs if the command line has the
/// subverb.
CLI::App* add_subverb(CLI::App& parent, const std::string& name,
                      const std::string& text, common_options& common,
                      verb_action& run, verb_action action);

void add_client_options(CLI::App& verb, client_options& options);

/// Parses the command line of a program with verbs, runs its verb and returns
/// the exit status. `run` is the variable that the verbs were added with.
int run_program(CLI::App& app, const common_options& common,
                const verb_action& run, int argc, char** argv);

void add_node_verb(CLI::App& app, common_options& common, verb_action& run);
void add_model_verb(CLI::App& app, common_options& common, verb_action& run);
/// Add `model layers` and `model cuts`.
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

} // namespace millrace

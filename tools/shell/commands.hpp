// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/operator_client.hpp"
#include "millrace/print.hpp"

namespace millrace {

/// How a command's result is printed.
enum class output_form : uint8_t { text, json };

/// The context of a command.
struct shell {
  operator_client& cluster;
  output_form form = output_form::text;
  bool sure = false; ///< --yes: removals need no confirmation
};

using arguments = std::vector<std::string>;

/// What an argument names, for completion.
enum class argument : uint8_t {
  other,
  node,
  model,
  level,
  command,
  watched, ///< a command that watch may run
  file
};

/// A command of actor-shell.
struct shell_command {
  std::string name;
  std::string usage = {}; ///< the arguments, as shown by help
  size_t least = 0;       ///< fewest arguments
  size_t most = 0;        ///< most arguments
  std::vector<argument> takes = {};
  std::string help = {};
  /// Runs the command, prints the result, and returns an exit status.
  int (*run)(shell& in, const arguments& args) = nullptr;
  std::string more = {}; ///< added to the output of 'help COMMAND'
  bool watched = true;   ///< only reads, and ends: `watch` may repeat it
};

/// All commands, in the order of the help list.
const std::vector<shell_command>& shell_commands();

/// The name of a command and its arguments.
std::string call_of(const shell_command& command);

/// Finds the command of a line of words, and checks the number of its
/// arguments. Errors: bad_request.
result<const shell_command*> command_of(const std::vector<std::string>& words);

/// Runs a line of words. With --yes among the words, the command asks for no
/// confirmation. Returns an exit status: 0 done, 1 failed, 2 unknown command or
/// wrong arguments.
int run_command(shell& in, std::vector<std::string> words);

/// Prints the list of commands, or the help of one; needs no cluster.
int print_help(output_form form, const arguments& args);

/// Prints why a command failed, and returns the exit status.
int complain(output_form form, const std::string& why,
             exit_status status = exit_failed);
int complain(const shell& in, const std::string& why,
             exit_status status = exit_failed);

/// Prints `text` when a command was carried out, or else the error.
int report_done(const shell& in, const result<ack>& answer,
                const std::string& text);

/// Warns on stderr about nodes that did not carry out a request. Only with text
/// output: JSON output has a member "failed".
void warn_of(const shell& in, const std::map<std::string, std::string>& nodes);

/// Whether standard input and output are a terminal.
bool can_ask();

/// Whether to carry out a change that ends or removes something: asks at a
/// terminal; elsewhere only --yes confirms.
bool confirmed(const shell& in, const std::string& what);

int print_json(const json& value);

} // namespace millrace

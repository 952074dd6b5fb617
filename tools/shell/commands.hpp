// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/operator_client.hpp"
#include "millrace/print.hpp"

namespace millrace {

/// How a command's result is printed.
enum class output_form : uint8_t { text, json };

/// What a command works with.
struct shell {
  operator_client& cluster;
  output_form form = output_form::text;
  bool sure = false; ///< nobody is asked before something is taken away
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

/// One thing actor-shell can do.
struct shell_command {
  std::string name;
  std::string usage;  ///< its arguments, as help shows them
  size_t least, most; ///< how many of them
  std::vector<argument> takes;
  std::string help;
  /// Runs it, prints what it found, and returns an exit status.
  int (*run)(shell& in, const arguments& args);
  std::string more = {}; ///< what 'help COMMAND' adds
  bool watched = true;   ///< it looks, and ends: watch may run it
};

/// All commands, in the order help lists them.
const std::vector<shell_command>& shell_commands();

/// How it is called: its name and its arguments.
std::string call_of(const shell_command& x);

/// The command of a line of words, its arguments held against what it takes.
/// Errors: bad_request.
result<const shell_command*> command_of(const std::vector<std::string>& words);

/// Runs one line of words; --yes anywhere among them means that nobody is
/// asked. Returns an exit status: 0 done, 1 it failed, 2 no such command or
/// wrong arguments.
int run_command(shell& in, std::vector<std::string> words);

/// Prints what commands there are, or one; needs no cluster.
int print_help(output_form form, const arguments& args);

/// Prints why a command failed, and is its exit status.
int complain(output_form form, const std::string& why,
             exit_status status = exit_failed);
int complain(const shell& in, const std::string& why,
             exit_status status = exit_failed);

/// Prints that a command was carried out, or why not.
int report_done(const shell& in, const result<ack>& x, const std::string& text);

/// Warns that these nodes did not do what they were asked, and why: to stderr,
/// and in text only, for JSON has a member "failed".
void warn_of(const shell& in, const std::map<std::string, std::string>& nodes);

/// Whether a person is at the terminal to ask.
bool can_ask();

/// Whether to go on with what takes something away: asks at a terminal;
/// elsewhere --yes has to say so.
bool confirmed(const shell& in, const std::string& what);

/// Prints an answer as JSON.
int print_json(const json& x);

} // namespace millrace

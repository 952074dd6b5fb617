// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/operator_client.hpp"

namespace millrace {

/// How a command's result is printed.
enum class output_form : uint8_t { text, json };

/// One thing actor-shell can do.
struct shell_command {
  std::string name;
  std::string arguments; ///< as help shows them
  size_t least, most;    ///< how many of them
  std::string help;
  /// Runs it, prints what it found, and returns an exit status.
  int (*run)(operator_client& cluster, const std::vector<std::string>& args,
             output_form form);
};

/// All commands, in the order help lists them.
const std::vector<shell_command>& shell_commands();

/// Runs one line of words. Returns an exit status: 0 done, 1 it failed,
/// 2 no such command or wrong arguments.
int run_command(operator_client& cluster, const std::vector<std::string>& words,
                output_form form);

} // namespace millrace

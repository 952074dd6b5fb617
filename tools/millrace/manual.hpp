// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace millrace {

/// The parts of a manual page that do not come from the options.
struct manual_words {
  std::string summary; ///< "serve deep-learning inference on a cluster"
  /// Commands other than verbs: name with arguments, and description.
  std::vector<std::pair<std::string, std::string>> commands;
  std::vector<std::string> see_also; ///< "actor-shell(1)"
};

/// The manual page of a program, for man(1), from its verbs and options.
std::string man_page(const CLI::App& app, const manual_words& words);

/// The completion script of a program for bash(1): verbs, commands and options,
/// and files where an option takes a file.
std::string bash_completion(const CLI::App& app, const manual_words& words);

/// Adds the options --man and --completion, which print and exit. Help does not
/// list them.
void add_manual(CLI::App& app, manual_words words);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace millrace {

/// What of a manual the options do not say.
struct manual_words {
  std::string summary; ///< "serve deep-learning inference on a cluster"
  /// Commands that are no verbs, with arguments, and what they do.
  std::vector<std::pair<std::string, std::string>> commands;
  std::vector<std::string> see_also; ///< "actor-shell(1)"
};

/// The manual page of a program, for man(1), from its verbs and options.
std::string man_page(const CLI::App& app, const manual_words& words);

/// What bash(1) completes for a program: verbs, commands and options, and files
/// where an option takes one.
std::string bash_completion(const CLI::App& app, const manual_words& words);

/// Adds --man and --completion, which help does not show; they print and exit.
void add_manual(CLI::App& app, manual_words words);

} // namespace millrace

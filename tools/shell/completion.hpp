// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shell/commands.hpp"

namespace millrace {

/// Completes a line that is being typed: with commands, or with names of nodes
/// and models from the cluster. Requests the names at most every two seconds.
class completer {
public:
  explicit completer(operator_client& cluster) : cluster_(cluster) {}

  /// The words that begin with `begun`, sorted.
  std::vector<std::string> candidates(const std::vector<std::string>& words,
                                      const std::string& begun);

private:
  std::vector<std::string> all_of(argument kind);
  void look();

  operator_client& cluster_;
  timestamp looked_;
  std::vector<std::string> nodes_, models_;
};

/// What the word after `words` names: a command, or an argument of the command
/// in `words`.
argument kind_of_next(const std::vector<std::string>& words);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shell/commands.hpp"

namespace millrace {

/// What may follow some words, for a line that is being typed: commands, or
/// names of nodes and models as the cluster has them. Asks it for names at most
/// every two seconds.
class completer {
public:
  explicit completer(operator_client& cluster) : cluster_(cluster) {}

  /// The words that go on as `begun` does, in order.
  std::vector<std::string> candidates(const std::vector<std::string>& words,
                                      const std::string& begun);

private:
  std::vector<std::string> all_of(argument x);
  void look();

  operator_client& cluster_;
  timestamp looked_;
  std::vector<std::string> nodes_, models_;
};

/// What the last of these words names, the others being before it: a command,
/// or an argument of one.
argument kind_of_next(const std::vector<std::string>& words);

} // namespace millrace

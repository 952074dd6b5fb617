// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/time.hpp"

namespace millrace {

/// A bar on stderr for work that takes a while; nothing where stderr is no
/// terminal.
class progress_bar {
public:
  progress_bar(std::string title, bool wanted);

  /// `part` from 0 to 1; draws at most ten times a second.
  void show(double part, const std::string& note = {});

  /// Prints a line on stderr in place of the bar, which the next show() draws
  /// below it; also where there is no bar.
  void print_line(const std::string& text);

  /// Takes the bar away.
  void done();

private:
  std::string title_;
  bool wanted_;
  timestamp drawn_;
  timestamp begun_;
};

} // namespace millrace

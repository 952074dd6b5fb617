// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/time.hpp"

namespace millrace {

/// A progress bar on stderr; prints nothing if stderr is no terminal.
class progress_bar {
public:
  progress_bar(std::string title, bool wanted);

  /// `part` from 0 to 1; draws at most ten times a second.
  void show(double part, const std::string& note = {});

  /// Prints a line on stderr above the bar; also without a terminal.
  void print_line(const std::string& text);

  /// Removes the bar.
  void done();

private:
  std::string title_;
  bool wanted_;
  timestamp drawn_;
  timestamp begun_;
};

} // namespace millrace

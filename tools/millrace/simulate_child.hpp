// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "millrace/print.hpp"

namespace millrace {

/// The result of a simulation in a child process: a summary, or an error.
struct child_result {
  json found;        ///< as `millrace simulate --json` prints it
  std::string error; ///< empty: the run succeeded
};

/// Runs `millrace simulate FILE --json` with these arguments, and waits.
child_result simulate_in_child(const std::string& file,
                               const std::vector<std::string>& arguments);

} // namespace millrace

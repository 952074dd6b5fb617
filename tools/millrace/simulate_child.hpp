// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "millrace/print.hpp"

namespace millrace {

/// The summary of a run in a process of its own, or why there is none.
struct child_result {
  json found;        ///< as `millrace simulate --json` prints it
  std::string error; ///< empty: the run succeeded
};

/// Runs `millrace simulate FILE --json` with these arguments and waits.
child_result simulate_in_child(const std::string& file,
                               const std::vector<std::string>& arguments);

} // namespace millrace

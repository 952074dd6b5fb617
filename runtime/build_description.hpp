// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace millrace {

/// What this program was built of.
struct build_description {
  std::string version;  ///< of Millrace
  std::string commit;   ///< of its source; "unknown" outside a git checkout
  std::string libtorch; ///< that the backend was built with, or "none"
  std::string cuda; ///< that devices of type cuda were built with, or "none"
};

/// As CMake found it when the build was configured.
build_description this_build();

} // namespace millrace

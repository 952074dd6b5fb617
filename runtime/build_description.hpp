// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace millrace {

/// Versions that this program was built from.
struct build_description {
  std::string version;  ///< version of Millrace
  std::string commit;   ///< git commit; "unknown" outside a git checkout
  std::string libtorch; ///< version of the backend's LibTorch, or "none"
  std::string cuda;     ///< version for cuda devices, or "none"
};

/// Returns the versions found when CMake configured the build.
build_description this_build();

} // namespace millrace

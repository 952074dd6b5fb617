// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "runtime/error.hpp"

namespace millrace {

/// Makes an error from errno: "PATH: cannot open: No such file or directory".
inline error system_error(const std::string& path, const char* what) {
  return {ec::unavailable,
          path + ": cannot " + what + ": " + std::strerror(errno)};
}

} // namespace millrace

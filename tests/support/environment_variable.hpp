// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

namespace millrace::test {

/// Sets an environment variable for child processes while this object lives.
struct environment_variable {
  environment_variable(const char* x, const char* value) : name(x) {
    ::setenv(name, value, 1);
  }
  ~environment_variable() { ::unsetenv(name); }
  environment_variable(const environment_variable&) = delete;
  environment_variable& operator=(const environment_variable&) = delete;
  const char* name;
};

} // namespace millrace::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace millrace::test {

/// A forbidden action of a model, attempted by a system call.
struct attempt {
  const char* what;
  /// Returns 0 if the system allowed the action, else the errno value.
  int (*make)();
  /// An unconfined process of an ordinary user may do this. Proves that the
  /// attempt itself is correct.
  bool ordinary = false;
};

std::span<const attempt> attempts();

} // namespace millrace::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace millrace::test {

/// Something that a model has no business to do, tried by a system call.
struct attempt {
  const char* what;
  /// 0 when it was allowed, else the system's error number.
  int (*make)();
  /// Whether an unconfined process of an ordinary user may do it: so that the
  /// list can be seen to try what it says.
  bool ordinary = false;
};

std::span<const attempt> attempts();

} // namespace millrace::test

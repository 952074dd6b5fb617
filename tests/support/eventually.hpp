// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <unistd.h>

#include "runtime/units.hpp"

namespace millrace::test {

/// Sleeps in short steps until f() holds. Returns false if the time ran out.
template <class F>
bool eventually(F f, microseconds longest) {
  auto until = steady_now() + longest;
  while (!f()) {
    if (steady_now() > until)
      return false;
    ::usleep(20'000);
  }
  return true;
}

} // namespace millrace::test

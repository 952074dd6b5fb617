// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace millrace {

/// While it lives the first ctrl-C does not end the program but what it waits
/// for, and is noticed; the second ends it. One at a time; it has the process's
/// timer (setitimer).
class interruptible {
public:
  interruptible();
  ~interruptible();
  interruptible(const interruptible&) = delete;
  interruptible& operator=(const interruptible&) = delete;

  bool happened() const;

private:
  struct sigaction before_ {};
  struct sigaction alarm_before_ {};
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace millrace {

/// During the object's lifetime the first ctrl-C interrupts the blocking call,
/// and sets a flag; the second ends the program. One object at a time; uses the
/// process's timer (setitimer).
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

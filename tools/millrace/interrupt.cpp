// SPDX-License-Identifier: Apache-2.0
#include "millrace/interrupt.hpp"

#include <sys/time.h>

namespace millrace {

namespace {

volatile std::sig_atomic_t interrupts = 0;

/// Has a signal come every so often; 0: none.
void repeat_alarm(suseconds_t period) {
  itimerval x{{0, period}, {0, period}};
  ::setitimer(ITIMER_REAL, &x, nullptr);
}

/// Again and again: a read that has not begun yet would miss the first.
void on_ctrl_c(int) {
  interrupts = 1;
  repeat_alarm(20'000);
}

} // namespace

interruptible::interruptible() {
  interrupts = 0;
  struct sigaction x {}; // without SA_RESTART: reads end
  x.sa_handler = [](int) {};
  ::sigaction(SIGALRM, &x, &alarm_before_);
  x.sa_handler = on_ctrl_c;
  x.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &x, &before_);
}

interruptible::~interruptible() {
  ::sigaction(SIGINT, &before_, nullptr);
  repeat_alarm(0);
  ::sigaction(SIGALRM, &alarm_before_, nullptr);
}

bool interruptible::happened() const {
  return interrupts != 0;
}

} // namespace millrace

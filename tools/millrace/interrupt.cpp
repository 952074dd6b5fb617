// SPDX-License-Identifier: Apache-2.0
#include "millrace/interrupt.hpp"

#include <sys/time.h>

namespace millrace {

namespace {

volatile std::sig_atomic_t interrupts = 0;

/// Raises SIGALRM at this period; 0: stops.
void repeat_alarm(suseconds_t period) {
  itimerval x{{0, period}, {0, period}};
  ::setitimer(ITIMER_REAL, &x, nullptr);
}

/// Repeats the signal, because a read that begins after the first would block.
void on_ctrl_c(int) {
  interrupts = 1;
  repeat_alarm(20'000);
}

} // namespace

interruptible::interruptible() {
  interrupts = 0;
  struct sigaction x {}; // no SA_RESTART: a blocked read returns
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

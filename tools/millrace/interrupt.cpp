// SPDX-License-Identifier: Apache-2.0
#include "millrace/interrupt.hpp"

#include <cerrno>

#include <poll.h>

namespace millrace {

namespace {

volatile std::sig_atomic_t interrupts = 0;

} // namespace

interruptible::interruptible() {
  interrupts = 0;
  struct sigaction x {};
  x.sa_handler = [](int) { interrupts = 1; };
  x.sa_flags = static_cast<int>(SA_RESETHAND); // no SA_RESTART: reads end
  ::sigaction(SIGINT, &x, &before_);
}

interruptible::~interruptible() {
  ::sigaction(SIGINT, &before_, nullptr);
}

bool interruptible::happened() const {
  return interrupts != 0;
}

bool interruptible::wait_for_input() const {
  sigset_t ctrl_c, before;
  ::sigemptyset(&ctrl_c);
  ::sigaddset(&ctrl_c, SIGINT);
  // Let through while it waits and not before: else what comes between the look
  // and the wait would end neither.
  ::pthread_sigmask(SIG_BLOCK, &ctrl_c, &before);
  pollfd in{0, POLLIN, 0};
  while (!happened() && ::ppoll(&in, 1, nullptr, &before) < 0 && errno == EINTR)
    ;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return !happened();
}

} // namespace millrace

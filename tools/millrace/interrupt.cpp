// SPDX-License-Identifier: Apache-2.0
#include "millrace/interrupt.hpp"

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

} // namespace millrace

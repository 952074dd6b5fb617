// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

namespace millrace::zeromq {

/// Wakes the polling thread from another thread.
class wake_event {
public:
  wake_event() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  wake_event(const wake_event&) = delete;
  wake_event& operator=(const wake_event&) = delete;
  ~wake_event() { ::close(fd_); }

  int fd() const { return fd_; }

  /// Any thread. Costs no system call while the polling thread is awake.
  void raise() {
    if (!asleep_.exchange(false))
      return;
    uint64_t one = 1;
    static_cast<void>(::write(fd_, &one, sizeof one));
  }

  /// The polling thread calls it before its last check for work.
  void about_to_sleep() { asleep_ = true; }

  void awake() {
    if (asleep_.exchange(false))
      return; // not raised
    uint64_t ignored;
    static_cast<void>(::read(fd_, &ignored, sizeof ignored));
  }

private:
  int fd_;
  std::atomic<bool> asleep_{false};
};

} // namespace millrace::zeromq

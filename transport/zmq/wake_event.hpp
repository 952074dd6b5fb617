// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

namespace millrace::zeromq {

/// Lets other threads wake one that polls.
class wake_event {
public:
  wake_event() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  wake_event(const wake_event&) = delete;
  wake_event& operator=(const wake_event&) = delete;
  ~wake_event() { ::close(fd_); }

  int fd() const { return fd_; }

  /// From any thread; costs nothing when the thread is awake anyway.
  void raise() {
    if (!asleep_.exchange(false))
      return;
    uint64_t one = 1;
    static_cast<void>(::write(fd_, &one, sizeof one));
  }

  /// The polling thread says so before it looks for work a last time.
  void about_to_sleep() { asleep_ = true; }

  void awake() {
    if (asleep_.exchange(false))
      return; // nobody raised it
    uint64_t ignored;
    static_cast<void>(::read(fd_, &ignored, sizeof ignored));
  }

private:
  int fd_;
  std::atomic<bool> asleep_{false};
};

} // namespace millrace::zeromq

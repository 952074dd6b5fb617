// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>
#include <utility>

namespace millrace {

/// Owns a file descriptor. A negative value means none, as in system calls.
class file_descriptor {
public:
  explicit file_descriptor(int fd = -1) : fd_(fd) {}
  file_descriptor(file_descriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}
  file_descriptor& operator=(file_descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~file_descriptor() {
    if (fd_ >= 0)
      ::close(fd_);
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

private:
  int fd_;
};

} // namespace millrace

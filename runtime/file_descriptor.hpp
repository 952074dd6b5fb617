// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>
#include <utility>

namespace millrace {

/// Owns a file descriptor; negative: none, as what the system's calls return.
class file_descriptor {
public:
  explicit file_descriptor(int fd = -1) : fd_(fd) {}
  file_descriptor(file_descriptor&& x) noexcept
    : fd_(std::exchange(x.fd_, -1)) {}
  file_descriptor& operator=(file_descriptor&& x) noexcept {
    std::swap(fd_, x.fd_);
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

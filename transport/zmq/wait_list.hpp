// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

#include <poll.h>
#include <zmq.hpp>

namespace millrace::zeromq {

/// What the thread of the sockets sleeps on: one poll(2) of their own
/// descriptors, where zmq_poll(3) asks the kernel twice about each socket.
///
/// Such a descriptor tells of a change once (zmq_getsockopt(3), ZMQ_FD), and
/// sending on the socket may use that up. So every socket that was made, woke
/// the thread or was sent on since is received from, until it has nothing,
/// before the thread sleeps again.
class wait_list {
public:
  void clear() {
    polled_.clear();
    ready_.clear();
  }

  /// `ready` becomes true when there is something to look at; else it stays.
  void add(int descriptor, bool& ready) {
    polled_.push_back({descriptor, POLLIN, 0});
    ready_.push_back(&ready);
  }

  void add(const zmq::socket_t& x, bool& ready) {
    add(x.get(zmq::sockopt::fd), ready);
  }

  void sleep(std::chrono::milliseconds longest) {
    ::poll(polled_.data(), polled_.size(), static_cast<int>(longest.count()));
    for (size_t i = 0; i < polled_.size(); ++i)
      if (polled_[i].revents != 0)
        *ready_[i] = true;
  }

private:
  std::vector<pollfd> polled_;
  std::vector<bool*> ready_;
};

} // namespace millrace::zeromq

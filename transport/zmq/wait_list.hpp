// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <utility>
#include <vector>

#include <poll.h>
#include <zmq.hpp>

#include "transport/zmq/socket.hpp"
#include "transport/zmq/traffic.hpp"

namespace millrace::zeromq {

/// The descriptors that the socket thread waits for, in one poll(2) call;
/// zmq_poll(3) makes two system calls per socket.
///
/// Each socket has a flag: its events must be checked. A ZeroMQ descriptor
/// signals a change only once (zmq_getsockopt(3), ZMQ_FD), and a send on the
/// socket may consume the signal. So code that creates a socket, sends on it,
/// or leaves messages unread sets the flag. Code that clears the flag receives
/// until the socket is empty.
class wait_list {
public:
  void clear() {
    polled_.clear();
    flags_.clear();
    any_ = false;
  }

  void add(int descriptor, bool& flag) {
    polled_.push_back({descriptor, POLLIN, 0});
    flags_.push_back(&flag);
    any_ |= flag;
  }

  void add(const zmq::socket_t& socket, bool& flag) {
    add(socket.get(zmq::sockopt::fd), flag);
  }

  /// Whether a flag was set when its socket was added.
  bool any() const { return any_; }

  /// Waits for a descriptor, at most this long, and sets the flags of the ready
  /// ones.
  void wait(std::chrono::milliseconds longest) {
    ::poll(polled_.data(), polled_.size(), static_cast<int>(longest.count()));
    for (size_t i = 0; i < polled_.size(); ++i)
      if (polled_[i].revents != 0)
        *flags_[i] = true;
  }

private:
  std::vector<pollfd> polled_;
  std::vector<bool*> flags_;
  bool any_ = false;
};

/// Passes the messages of a flagged socket to `handle`, a limited number per
/// call. The flag stays set if messages may be left.
template <class F>
void take_messages(zmq::socket_t& from, bool& flag, traffic& counts, F handle) {
  constexpr int messages_per_turn = 64;
  if (!std::exchange(flag, false))
    return;
  frame_list frames;
  int n = 0;
  for (; n < messages_per_turn && receive(from, frames); ++n)
    if (frames.size() >= 2) // the sender's routing id, and content
      handle(frames);
    else
      counts.dropped("too_many_or_few_frames");
  flag |= n == messages_per_turn;
}

} // namespace millrace::zeromq

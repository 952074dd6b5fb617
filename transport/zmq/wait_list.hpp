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

/// What the thread of the sockets waits for: one poll(2) of their own
/// descriptors, where zmq_poll(3) asks the kernel twice about each socket.
///
/// Each comes with a flag, whether it is to be looked at. Such a descriptor
/// tells of a change once (zmq_getsockopt(3), ZMQ_FD), and sending on its
/// socket may use that up. So whoever made a socket, sent on it, or left
/// something there sets its flag, and whoever clears it receives until there
/// is nothing.
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

  void add(const zmq::socket_t& x, bool& flag) {
    add(x.get(zmq::sockopt::fd), flag);
  }

  /// Whether something was to be looked at when it was added.
  bool any() const { return any_; }

  /// Sets the flags of what there is something of, until then or at once.
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

/// Gives the messages of a socket whose flag is set to `handle`, some where
/// there are many, for others want their turn: the flag is left set then.
template <class F>
void take_messages(zmq::socket_t& from, bool& flag, traffic& counts, F handle) {
  constexpr int messages_per_turn = 64;
  if (!std::exchange(flag, false))
    return;
  frame_list frames;
  int n = 0;
  for (; n < messages_per_turn && receive(from, frames); ++n)
    if (frames.size() >= 2) // who says it, and something
      handle(frames);
    else
      counts.dropped("too_many_or_few_frames");
  flag |= n == messages_per_turn;
}

} // namespace millrace::zeromq

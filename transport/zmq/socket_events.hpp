// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include <zmq.hpp>

namespace millrace::zeromq {

/// Of a socket's monitor: libzmq gives such a connection up for good.
constexpr int failed_handshakes =
  ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

/// A connection ended before it began, or the other side took too long to begin
/// it; libzmq tries again.
constexpr int broken_handshake = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;

/// What befalls the connections of a socket (zmq_socket_monitor(3)). To be gone
/// before the socket is: libzmq's I/O thread would wait for ever to tell who
/// does not listen any more.
class socket_events {
public:
  socket_events() = default;

  /// Hears of these events (ZMQ_EVENT_... or'ed) from now on.
  socket_events(zmq::context_t& context, zmq::socket_t& of, int which);

  socket_events(socket_events&& x) noexcept
    : of_(std::exchange(x.of_, nullptr)),
      pipe_(std::move(x.pipe_)) {}
  socket_events& operator=(socket_events&& x) noexcept {
    std::swap(of_, x.of_);
    std::swap(pipe_, x.pipe_);
    return *this;
  }
  ~socket_events() { stop(); }

  void stop();

  /// To be waited for.
  zmq::socket_t& socket() { return pipe_; }

  struct event {
    int kind = 0;  ///< ZMQ_EVENT_...
    int value = 0; ///< mostly a file descriptor
  };

  /// The next one; nothing when there is none.
  std::optional<event> next();

private:
  void* of_ = nullptr; ///< null: stopped
  zmq::socket_t pipe_;
};

} // namespace millrace::zeromq

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include <zmq.hpp>

namespace millrace::zeromq {

/// Events of a socket's monitor after which libzmq gives the connection up.
constexpr int failed_handshakes =
  ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

/// The connection ended during the handshake, or the handshake took too long;
/// libzmq tries again.
constexpr int broken_handshake = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;

/// Events of a socket's connections (zmq_socket_monitor(3)). Destroy before the
/// socket: otherwise libzmq's I/O thread would wait for ever for a reader of
/// the events.
class socket_events {
public:
  socket_events() = default;

  /// Starts to report these events (ZMQ_EVENT_... or'ed).
  socket_events(zmq::context_t& context, zmq::socket_t& of, int which);

  socket_events(socket_events&& other) noexcept
    : of_(std::exchange(other.of_, nullptr)),
      pipe_(std::move(other.pipe_)) {}
  socket_events& operator=(socket_events&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(pipe_, other.pipe_);
    return *this;
  }
  ~socket_events() { stop(); }

  void stop();

  /// The socket to wait for.
  zmq::socket_t& socket() { return pipe_; }

  struct event {
    int kind = 0;  ///< ZMQ_EVENT_...
    int value = 0; ///< usually a file descriptor
  };

  /// The next event; none if the queue is empty.
  std::optional<event> next();

private:
  void* of_ = nullptr; ///< null: stopped
  zmq::socket_t pipe_;
};

} // namespace millrace::zeromq

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/time.hpp"
#include "transport/zmq/socket_events.hpp"

namespace millrace::zeromq {

/// Detects ended connections of a ROUTER. ZeroMQ reports the file descriptor of
/// an ended connection, not its routing id, so the descriptor of each
/// connection with messages is recorded. Also ends connections without
/// messages, which libzmq would keep for ever. For the socket's thread.
class connection_watch {
public:
  /// `router` is bound.
  connection_watch(zmq::context_t& context, zmq::socket_t& router);

  /// The socket to wait for.
  zmq::socket_t& socket() { return events_.socket(); }

  /// Call before the router is closed.
  void stop() { events_.stop(); }

  /// How long a connection may be open before its first message.
  static constexpr auto patience = 5s;

  /// Processes the events of new and ended connections.
  void look(timestamp now);

  /// Ends connections without a message for `patience`. All received messages
  /// must have been noted with saw(). A descriptor that libzmq has just closed
  /// may belong to a new connection; that client connects again.
  void end_silent(timestamp now);

  /// Records the connection of a message. A connection that has already ended
  /// counts as left.
  void saw(const std::string& connection, zmq::message_t& frame, timestamp now);

  /// The connections that ended since the last call.
  std::vector<std::string> take_left() { return std::exchange(left_, {}); }

  /// Number of open connections.
  size_t open() const { return open_.size(); }

  /// Number of connections with messages.
  size_t size() const { return descriptors_.size(); }

private:
  socket_events events_;
  std::unordered_map<int, timestamp> open_;     ///< start time by descriptor
  std::deque<std::pair<timestamp, int>> begun_; ///< may be silent
  std::unordered_map<std::string, int> descriptors_; ///< by connection
  std::unordered_map<int, std::string> by_descriptor_;
  std::vector<std::string> left_;
};

} // namespace millrace::zeromq

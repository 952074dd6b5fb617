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

/// Knows when a connection to a ROUTER has ended, which ZeroMQ tells of by file
/// descriptor and not by routing id: of each connection that said something the
/// descriptor is remembered. Also ends connections on which no message comes:
/// libzmq would keep them for ever. For the socket's thread.
class connection_watch {
public:
  /// For a socket that is bound.
  connection_watch(zmq::context_t& context, zmq::socket_t& router);

  /// To be waited for.
  zmq::socket_t& socket() { return events_.socket(); }

  /// To be called before the socket is closed.
  void stop() { events_.stop(); }

  /// How long a connection may be open before its first message.
  static constexpr auto patience = 5s;

  /// Takes in which connections have begun and ended.
  void look(timestamp now);

  /// Ends connections without a message for `patience`. Every message that was
  /// received has been noted by saw(). A descriptor that libzmq has just closed
  /// may belong to a new connection by now; that client connects again.
  void end_silent(timestamp now);

  /// Notes the connection of a message. One that is over by now has left with
  /// it.
  void saw(const std::string& connection, zmq::message_t& frame, timestamp now);

  /// The connections that ended since the last call.
  std::vector<std::string> take_left() { return std::exchange(left_, {}); }

  /// Connections that are there.
  size_t open() const { return open_.size(); }

  /// Those of them that said something.
  size_t size() const { return descriptors_.size(); }

private:
  socket_events events_;
  std::unordered_map<int, timestamp> open_;     ///< since when
  std::deque<std::pair<timestamp, int>> begun_; ///< those that may be silent
  std::unordered_map<std::string, int> descriptors_; ///< by connection
  std::unordered_map<int, std::string> by_descriptor_;
  std::vector<std::string> left_;
};

} // namespace millrace::zeromq

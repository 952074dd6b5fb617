// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "transport/zmq/socket_events.hpp"

namespace millrace::zeromq {

/// Knows when a connection to a ROUTER has ended, which ZeroMQ tells of by file
/// descriptor and not by routing id: of each connection that said something the
/// descriptor is remembered. For the socket's thread.
class connection_watch {
public:
  /// For a socket that is bound.
  connection_watch(zmq::context_t& context, zmq::socket_t& router);

  /// To be waited for.
  zmq::socket_t& socket() { return events_.socket(); }

  /// To be called before the socket is closed.
  void stop() { events_.stop(); }

  /// Hears which connections have begun and ended.
  void look();

  /// Notes the connection of a message. look() has been called since that was
  /// received: one that is over by then has left with it.
  void saw(const std::string& connection, zmq::message_t& frame);

  /// The connections that ended since the last call.
  std::vector<std::string> take_left() { return std::exchange(left_, {}); }

  /// Connections that are there.
  size_t open() const { return open_.size(); }

  /// Those of them that said something.
  size_t size() const { return descriptors_.size(); }

private:
  socket_events events_;
  std::unordered_set<int> open_;
  std::unordered_map<std::string, int> descriptors_; ///< by connection
  std::unordered_map<int, std::string> by_descriptor_;
  std::vector<std::string> left_;
};

} // namespace millrace::zeromq

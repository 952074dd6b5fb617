// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>
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

  /// Notes the connection of a message that has just been received; take_left
  /// has been called since.
  void saw(const std::string& connection, zmq::message_t& frame);

  /// The connections that ended since the last call.
  std::vector<std::string> take_left();

  /// Connections that are there and said something.
  size_t size() const { return by_descriptor_.size(); }

private:
  socket_events events_;
  std::unordered_map<std::string, int> descriptors_; ///< by connection
  std::unordered_map<int, std::string> by_descriptor_;
};

} // namespace millrace::zeromq

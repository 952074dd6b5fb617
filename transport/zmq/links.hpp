// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "runtime/text.hpp"
#include "transport/peers.hpp"
#include "transport/zmq/socket.hpp"

namespace millrace::zeromq {

/// A connection's routing id: which start of which node it is of, and which
/// connection of that start. A new connection has a new id, since a ROUTER
/// ignores one whose id it still holds for a connection that is dead already.
std::string make_routing_id(const origin& self, uint64_t connection);

/// The start out of a routing id.
std::optional<origin> parse_routing_id(std::string_view x);

/// The outgoing connections of a node: one DEALER per address, each watched by
/// a monitor, so that a lost connection is known as soon as the kernel knows.
/// For one thread.
class link_set {
public:
  link_set(zmq::context_t& context, origin self, socket_options options);

  /// Starts to connect; tries for ever. Errors: bad_config when it is no
  /// address; unavailable when there are no sockets left.
  result<void> connect(const std::string& address);
  void drop(const std::string& address);

  /// False when there is no such connection or it takes nothing more.
  bool send(const std::string& address, const wire_message& x, timestamp now);

  void add_poll_items(std::vector<zmq::pollitem_t>& items);

  using callback = std::function<void(const std::string& address)>;

  /// Reports connections made and lost since the last call. A lost one is
  /// replaced by a new one.
  void take_events(const callback& connected, const callback& disconnected);

private:
  struct link {
    zmq::socket_t dealer;
    zmq::socket_t monitor;
  };

  zmq::context_t& context_;
  origin self_;
  socket_options options_;
  std::map<std::string, link> links_;
  uint64_t connections_ = 0;
};

} // namespace millrace::zeromq

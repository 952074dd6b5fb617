// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "runtime/text.hpp"
#include "transport/peers.hpp"
#include "transport/zmq/curve.hpp"
#include "transport/zmq/socket.hpp"
#include "transport/zmq/socket_events.hpp"
#include "transport/zmq/wait_list.hpp"

namespace millrace::zeromq {

/// The routing id of a connection: a start of a node, and the number of the
/// connection in that start. Each connection has a new id, since a ROUTER
/// ignores an id that it still holds for a dead connection.
std::string make_routing_id(const origin& self, uint64_t connection);

/// The start in a routing id.
std::optional<origin> parse_routing_id(std::string_view text);

/// Checks that a hello describes the start of its sender, and that its
/// incarnation is plausible as a count of starts: at most one start per second
/// since 1970, plus a day for clock differences. With a stolen key an attacker
/// could otherwise claim the last incarnation, which the node itself could
/// never exceed. Errors: bad_request. It is no misconduct, which would suspend
/// the node together with the attacker.
result<void> check_hello(const hello& greeting, const origin& from);

/// The outgoing connections of a node: one DEALER per address, each with a
/// monitor that reports a lost connection as soon as the kernel does. For one
/// thread.
class link_set {
public:
  /// Without `own` the connections have no keys.
  link_set(zmq::context_t& context, origin self, socket_options options,
           std::optional<key_pair> own);

  /// Starts to connect to the server with that key; ZeroMQ retries for ever.
  /// Errors: bad_config for an invalid address; unavailable if there are no
  /// sockets left.
  result<void> connect(const std::string& address, const std::string& node,
                       const std::string& server_key);
  void drop(const std::string& address);

  /// False if there is no such connection, or its queue is full.
  bool send(const std::string& address, const wire_message& message,
            timestamp now);

  /// Node and key expected at each connection.
  struct server {
    std::string address, node, key;
  };
  std::vector<server> servers() const;

  void add_to(wait_list& list);

  using callback = std::function<void(const std::string& address)>;

  /// Reports connections made, lost and refused since the last call. A lost
  /// connection is replaced by a new one; a refused one stays idle.
  void take_events(const callback& connected, const callback& disconnected,
                   const callback& refused);

private:
  struct link {
    std::string node; ///< expected at the address
    std::string server_key;
    zmq::socket_t dealer;
    socket_events events; ///< last: destroyed before the socket
  };

  zmq::context_t& context_;
  origin self_;
  socket_options options_;
  std::optional<key_pair> own_;
  std::map<std::string, link> links_;
  uint64_t connections_ = 0;
  bool ready_ = true; ///< some link may have events
};

} // namespace millrace::zeromq

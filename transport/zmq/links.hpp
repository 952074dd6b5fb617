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

/// A connection's routing id: which start of which node it is of, and which
/// connection of that start. A new connection has a new id, since a ROUTER
/// ignores one whose id it still holds for a connection that is dead already.
std::string make_routing_id(const origin& self, uint64_t connection);

/// The start out of a routing id.
std::optional<origin> parse_routing_id(std::string_view x);

/// Checks that a hello is about the start of the node that sent it, and that
/// its incarnation can be a count of starts: at most one start a second since
/// 1970, and a day for clocks that differ. A stolen key could otherwise claim
/// the last incarnation there is, which the node itself never gets past.
/// Errors: bad_request, no misconduct, which would suspend the node with the
/// thief.
result<void> check_hello(const hello& x, const origin& from);

/// The outgoing connections of a node: one DEALER per address, each watched by
/// a monitor, so that a lost connection is known as soon as the kernel knows.
/// For one thread.
class link_set {
public:
  /// Without a key of its own the node's connections have none either.
  link_set(zmq::context_t& context, origin self, socket_options options,
           std::optional<key_pair> own);

  /// Starts to connect to who has that key; tries for ever. Errors: bad_config
  /// when it is no address; unavailable when there are no sockets left.
  result<void> connect(const std::string& address, const std::string& node,
                       const std::string& server_key);
  void drop(const std::string& address);

  /// False when there is no such connection or it takes nothing more.
  bool send(const std::string& address, const wire_message& x, timestamp now);

  /// Whom each connection is to, and by which key.
  struct server {
    std::string address, node, key;
  };
  std::vector<server> servers() const;

  void add_to(wait_list& x);

  using callback = std::function<void(const std::string& address)>;

  /// Reports connections made, lost and refused since the last call. A lost
  /// one is replaced by a new one; a refused one does nothing more.
  void take_events(const callback& connected, const callback& disconnected,
                   const callback& refused);

private:
  struct link {
    std::string node; ///< who is expected there
    std::string server_key;
    zmq::socket_t dealer;
    socket_events events; ///< last: goes before the socket
  };

  zmq::context_t& context_;
  origin self_;
  socket_options options_;
  std::optional<key_pair> own_;
  std::map<std::string, link> links_;
  uint64_t connections_ = 0;
  bool ready_ = true; ///< one of them may have events
};

} // namespace millrace::zeromq

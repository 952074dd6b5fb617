// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/metrics.hpp"
#include "runtime/reactor.hpp"
#include "transport/peers.hpp"
#include "transport/switchboard.hpp"
#include "transport/zmq/authenticator.hpp"
#include "transport/zmq/loans.hpp"

namespace millrace {

/// Addresses of a node, and settings of its bus.
struct zmq_bus_settings {
  std::string cluster;
  member self;           ///< an empty address is filled in by open()
  std::string peers;     ///< bind address for other nodes
  std::string operators; ///< bind address for shells; empty: none
  /// Bind addresses for clients by tenant; the index in this list is the
  /// endpoint number in sessions.
  std::vector<tenant_address> clients;
  /// Nodes to contact first; with keys each needs a name.
  std::vector<node_address> seeds;
  std::optional<node_keys> keys; ///< none: all processes are on this host
  size_t longest_request = wire_limits::message_bytes; ///< bytes of a frame
  /// Limits of answers that clients have not read.
  zeromq::loan_limits max_unread;
  link_settings link;
  /// Called on the bus thread if another start with this node's name excludes
  /// this one: the cluster will ignore this node.
  std::function<void(const hello_rejected&)> on_hello_rejected;
  /// Called on the bus thread for the orders of operators and for refusals.
  zeromq::authenticator::witness on_notable;
};

/// The bus over ZeroMQ: one thread that owns all sockets and is CAF's host for
/// arriving messages, so it also runs the actors on the request path.
class zmq_bus : public switchboard_bus {
public:
  using switchboard_bus::switchboard_bus;

  /// Binds the sockets. Errors: bad_config with the address.
  static result<std::unique_ptr<zmq_bus>>
  open(caf::actor_system& system, zmq_bus_settings settings, metrics& counts);

  /// Starts the thread, connects to the seeds and accepts messages.
  virtual void start() = 0;

  /// Sends goodbye, ends the thread and closes the sockets. May be called
  /// twice.
  virtual void stop() = 0;

  /// Runs actors on the bus thread; device threads pass it as host.
  virtual reactor& host() = 0;

  /// Time since the thread last checked for messages: at most one heartbeat
  /// interval unless the thread is stuck. Any thread.
  virtual nanoseconds since_turn() const = 0;

  /// Replaces the list of allowed keys. Any thread.
  virtual void allow(allowed_keys keys) = 0;

  /// Addresses as bound, with wildcards resolved; empty without an endpoint.
  virtual const std::vector<tenant_address>& clients_addresses() const = 0;
  virtual std::string operators_address() const = 0;
};

} // namespace millrace

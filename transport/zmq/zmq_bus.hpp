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

/// Where a node listens and whom it meets.
struct zmq_bus_settings {
  std::string cluster;
  member self;           ///< its address is filled in when it is empty
  std::string peers;     ///< bind address for other nodes
  std::string operators; ///< bind address for shells; empty: none
  /// Bind addresses for clients by tenant; their sessions carry the place in
  /// this list.
  std::vector<tenant_address> clients;
  std::vector<node_address> seeds; ///< nodes to meet first; with keys, named
  std::optional<node_keys> keys;   ///< none: everything is on this host
  size_t longest_request = wire_limits::message_bytes; ///< a frame of it
  zeromq::loan_limits max_unread; ///< answers that clients have not read
  link_settings link;
  /// Called on the bus thread when another start stands in this one's way:
  /// the cluster will not listen to it.
  std::function<void(const hello_rejected&)> on_hello_rejected;
  /// What operators did and who was refused; called on the bus thread.
  zeromq::authenticator::witness on_notable;
};

/// The bus over ZeroMQ: one thread that owns all sockets and, as CAF's host for
/// what arrives, runs the actors on the request path.
class zmq_bus : public switchboard_bus {
public:
  using switchboard_bus::switchboard_bus;

  /// Binds the sockets. Errors: bad_config, naming the address.
  static result<std::unique_ptr<zmq_bus>>
  open(caf::actor_system& system, zmq_bus_settings settings, metrics& counts);

  /// Starts the thread: connects to the seeds and lets messages in.
  virtual void start() = 0;

  /// Says goodbye, ends the thread and closes the sockets. Twice is fine.
  virtual void stop() = 0;

  /// Runs actors on the bus thread; device threads name it as host.
  virtual reactor& host() = 0;

  /// How long ago the thread last looked for messages: a link's beat, unless it
  /// is stuck. Any thread.
  virtual nanoseconds since_turn() const = 0;

  /// Replaces the list of allowed keys. Any thread.
  virtual void allow(allowed_keys x) = 0;

  /// Addresses as bound, wildcards resolved; empty where there is none.
  virtual const std::vector<tenant_address>& clients_addresses() const = 0;
  virtual std::string operators_address() const = 0;
};

} // namespace millrace

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
#include "transport/zmq/loans.hpp"

namespace millrace {

/// Where a node listens and whom it meets.
struct zmq_bus_settings {
  std::string cluster;
  member self;                    ///< its address is filled in when it is empty
  std::string peers;              ///< bind address for other nodes
  std::string clients;            ///< bind address for clients; empty: none
  std::string operators;          ///< bind address for shells; empty: none
  std::vector<std::string> seeds; ///< nodes to meet first
  zeromq::loan_limits max_unread; ///< answers that clients have not read
  link_settings link;
  /// Called on the bus thread when another start stands in this one's way:
  /// the cluster will not listen to it.
  std::function<void(const refused&)> on_refused;
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

  /// Addresses as bound, wildcards resolved; empty where there is none.
  virtual std::string clients_address() const = 0;
  virtual std::string operators_address() const = 0;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "runtime/error.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// A server that sends back what it gets and does nothing else, and a client
/// for it: what a request would cost if the runtime cost nothing. The server is
/// a process of its own, like a node.
class echo_floor {
public:
  virtual ~echo_floor() = default;

  /// One payload there and back; returns how long it took.
  virtual nanoseconds round_trip() = 0;

  /// Payloads per second with so many on their way at once.
  virtual double throughput(size_t window, microseconds length) = 0;
};

/// A ROUTER that echoes to a DEALER over TCP, one frame a message.
result<std::unique_ptr<echo_floor>> make_zeromq_floor(size_t bytes);

/// A blocking TCP socket with TCP_NODELAY.
result<std::unique_ptr<echo_floor>> make_tcp_floor(size_t bytes);

/// Messages per second on CAF's deterministic coordinator: 1,600 actors that do
/// nothing but pass a number on to one another, each time to one drawn by
/// chance, as requests go to replicas.
double bare_coordinator_rate();

/// The same, but each message arrives a random while later, by CAF's own clock
/// for tests: what simulating takes at least when time is to pass.
double bare_clock_rate();

} // namespace millrace

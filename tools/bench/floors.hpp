// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "runtime/error.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// An echo server without further work, and a client for it: the cost of a
/// request in a runtime without overhead. The server is a separate process,
/// like a node.
class echo_floor {
public:
  virtual ~echo_floor() = default;

  /// Sends a payload and receives its echo; returns the time.
  virtual nanoseconds round_trip() = 0;

  /// Payloads per second with `window` payloads in flight.
  virtual double throughput(size_t window, microseconds length) = 0;
};

/// A ROUTER that echoes to a DEALER over TCP, one frame a message.
result<std::unique_ptr<echo_floor>> make_zeromq_floor(size_t bytes);

/// A blocking TCP socket with TCP_NODELAY.
result<std::unique_ptr<echo_floor>> make_tcp_floor(size_t bytes);

/// Messages per second on CAF's deterministic coordinator: each of 1,600 actors
/// passes numbers to random other actors, as requests go to replicas.
double bare_coordinator_rate();

/// As bare_coordinator_rate, but each message is delayed by a random time of
/// CAF's test clock: the minimum cost of simulating time.
double bare_clock_rate();

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/metrics.hpp"
#include "transport/bulk/engine.hpp"
#include "transport/bulk/store_sources.hpp"
#include "transport/keys/node_keys.hpp"
#include "transport/peers.hpp"

namespace millrace {

struct zmq_bulk_settings {
  origin self;
  std::string endpoint;          ///< bind address
  std::string advertise;         ///< address for other hosts; empty: as bound
  std::optional<node_keys> keys; ///< none: only for hosts on this machine
  /// Without encryption a requesting host is identified by its own claim and by
  /// the token.
  bool encrypt = true;
  serve_queue::limits limits{};
  /// Object stores that may be named as sources, by name.
  store_sources::stores stores{};
};

/// The bulk port over ZeroMQ, with a thread and sockets of its own, so that no
/// message waits behind a model. Chunks are sent from where they are stored.
/// Received chunks are copied once, to their final place, and hashed there.
class zmq_bulk : public bulk_port {
public:
  /// Errors: bad_config with the address.
  static result<std::unique_ptr<zmq_bulk>> open(zmq_bulk_settings settings,
                                                metrics& counts);

  /// Replaces the list of allowed keys. Any thread.
  virtual void allow(allowed_keys keys) = 0;
};

} // namespace millrace

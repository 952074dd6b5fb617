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
  std::string advertise;         ///< what others are told; empty: as bound
  std::optional<node_keys> keys; ///< none: everything is on this host
  /// With keys: else who asks is known by what they say, and by the token.
  bool encrypt = true;
  serve_queue::limits limits{};
  /// Object stores that may be named as sources, by that name.
  store_sources::stores stores{};
};

/// The bulk port over ZeroMQ: a thread and sockets of its own, so that no
/// message waits behind a model. Chunks go out from where they lie; what comes
/// is copied once, to where it belongs, and hashed there.
class zmq_bulk : public bulk_port {
public:
  /// Errors: bad_config, naming the address.
  static result<std::unique_ptr<zmq_bulk>> open(zmq_bulk_settings settings,
                                                metrics& counts);

  /// Replaces the list of allowed keys. Any thread.
  virtual void allow(allowed_keys x) = 0;
};

} // namespace millrace

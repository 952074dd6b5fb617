// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "transport/wire.hpp"

namespace millrace {

/// A connection from a client, shell or tool to a node's endpoint for clients
/// or for operators. For one thread.
class connection {
public:
  /// Connects, and waits up to `longest` for a node to listen. `key`: file of a
  /// key (millrace keys new); empty for a cluster without keys. Errors:
  /// bad_config for an invalid address or key; forbidden when the key is
  /// refused; unavailable when no node answers in time.
  static result<std::unique_ptr<connection>> open(const std::string& address,
                                                  microseconds longest,
                                                  const std::string& key);

  virtual ~connection() = default;

  /// False when no node is connected, or the send buffer is full.
  virtual bool send(const wire_frames& frames) = 0;

  /// Whether send() would take a message now.
  virtual bool has_room() = 0;

  /// Waits at most `longest` until there is room to send, a message to receive,
  /// or a loss to handle.
  virtual void wait_for_room(microseconds longest) = 0;

  /// The next message; waits at most `longest`.
  virtual std::optional<wire_frames> receive(microseconds longest) = 0;

  /// Whether the connection was lost since the last call; true before a new
  /// connection exists. Messages sent on the lost connection get no answer.
  /// Reconnects automatically, after pauses that grow from 50 ms to a second,
  /// with a random part.
  virtual bool was_lost() = 0;

  /// Closes a dead connection and makes a new one; was_lost() is then true.
  virtual void renew() = 0;

  virtual bool is_connected() const = 0;
  virtual const std::string& address() const = 0;

  virtual timestamp now() const = 0;
};

} // namespace millrace

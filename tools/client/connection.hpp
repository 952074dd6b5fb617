// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "transport/wire.hpp"

namespace millrace {

/// A connection from a program of ours to a node's endpoint for clients or for
/// operators. For one thread.
class connection {
public:
  /// Connects; a node that is not there yet is waited for, so long. `key` is
  /// the file of a key (millrace keys new), empty where the cluster has none.
  /// Errors: bad_config when the address cannot be parsed or the key is none;
  /// forbidden when it is not let in; unavailable when nobody listens there
  /// within the time.
  static result<std::unique_ptr<connection>> open(const std::string& address,
                                                  microseconds longest,
                                                  const std::string& key);

  virtual ~connection() = default;

  /// False when no node is connected, or the send buffer is full.
  virtual bool send(const wire_frames& x) = 0;

  /// Whether send() would take a message now.
  virtual bool has_room() = 0;

  /// Waits until there is room to send, a message to receive or a loss to
  /// handle, at most so long.
  virtual void wait_for_room(microseconds longest) = 0;

  /// The next message, waited for at most so long.
  virtual std::optional<wire_frames> receive(microseconds longest) = 0;

  /// Whether the connection was lost since the last call, known before another
  /// connection exists: messages sent on it get no answer. The connection is
  /// made again without a call, after pauses that grow from 50 ms to a second,
  /// with a random part.
  virtual bool was_lost() = 0;

  /// Gives up a connection that is dead, and makes a new one: was_lost() then.
  virtual void renew() = 0;

  virtual bool is_connected() const = 0;
  virtual const std::string& address() const = 0;

  virtual timestamp now() const = 0;
};

} // namespace millrace

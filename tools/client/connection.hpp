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
  /// Starts to connect; a node that is not there yet is waited for.
  /// Errors: bad_config when the address cannot be parsed.
  static result<std::unique_ptr<connection>> open(const std::string& address);

  virtual ~connection() = default;

  /// False when nobody is connected to or nothing more is taken.
  virtual bool send(const wire_message& x) = 0;

  /// The next message, waited for at most so long. Undecodable ones are passed
  /// over.
  virtual std::optional<wire_message> receive(microseconds longest) = 0;

  /// Waits until the node is connected.
  virtual bool wait_connected(microseconds longest) = 0;

  virtual timestamp now() const = 0;
};

} // namespace millrace

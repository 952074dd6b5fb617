// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "runtime/names.hpp"
#include "transport/wire.hpp"

namespace millrace {

/// Role of the sender on a connection. The role follows from the endpoint and,
/// with keys, from the key; never from a field of a message.
enum class role : uint8_t {
  client,    ///< client of a tenant: requests inference
  viewer,    ///< reads state with actor-shell
  operating, ///< reads state and changes the served models
  node,      ///< a gateway or worker
  controller ///< a node that gives orders to other nodes
};

constexpr auto names_of(role) {
  return name_table{"client", "viewer", "operator", "node", "controller"};
}

/// Whether a role may send a type of message. Every type that crosses the wire
/// is in one table; a type outside the table may not be sent by any role.
bool may_say(role who, std::string_view type);

/// Whether a message changes what a cluster does: a message that operators may
/// send and viewers may not. Each order is in the audit log.
bool is_order(std::string_view type);

/// An order as readable text with all its fields; the raw message if it cannot
/// be decoded.
std::string order_text(const wire_message& message);

/// The table as Markdown: one row per message, one column per role.
std::string access_reference();

} // namespace millrace

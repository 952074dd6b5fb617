// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "runtime/names.hpp"
#include "transport/wire.hpp"

namespace millrace {

/// Who speaks on a connection. It follows from the endpoint and, with keys,
/// from the key; never from a field of a message.
enum class role : uint8_t {
  client,    ///< of a tenant: asks for inference
  viewer,    ///< looks in with actor-shell
  operating, ///< looks in and changes what is served
  node,      ///< a gateway or worker
  controller ///< a node that tells others what to do
};

constexpr auto names_of(role) {
  return name_table{"client", "viewer", "operator", "node", "controller"};
}

/// Whether a role may say a type of message. Every type that crosses the wire
/// is in one table; a type that is not in it is nobody's.
bool may_say(role who, std::string_view type);

/// Whether it changes what a cluster does: what operators say beyond what
/// viewers do. Each is in the audit log.
bool is_order(std::string_view type);

/// An order for people, with all its fields; as it came where it does not
/// decode.
std::string order_text(const wire_message& x);

/// The table as Markdown: a row per message, a column per role.
std::string access_reference();

} // namespace millrace

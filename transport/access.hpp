// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "runtime/names.hpp"

namespace millrace {

/// Who speaks on a connection. It follows from the endpoint (and, with keys,
/// from the key), never from a field of a message.
enum class role : uint8_t { client, operating, node };

constexpr auto names_of(role) {
  return name_table{"client", "operator", "node"};
}

/// Whether a role may say a type of message. Every type that crosses the wire
/// is in one table; a type that is not in it is nobody's.
bool may_say(role who, std::string_view type);

} // namespace millrace

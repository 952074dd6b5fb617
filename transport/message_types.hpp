// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <typeinfo>

#include <caf/message.hpp>

#include "transport/codec.hpp"

namespace millrace {

/// One entry of the list of messages, with the type forgotten: how the bus
/// turns what actors send into frames and back.
struct message_type {
  std::string_view name;
  void (*encode)(encoder& out, const void* x);
  result<caf::message> (*decode)(const_bytes body, decode_context& ctx);
};

/// Null when no message has that name.
const message_type* find_message_type(std::string_view name);

/// Null when the type is not on the list of messages.
const message_type* find_message_type(const std::type_info& x);

/// Names of all messages, in the order of the list.
std::vector<std::string_view> message_names();

} // namespace millrace

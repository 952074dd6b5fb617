// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <typeinfo>

#include <caf/message.hpp>

#include "transport/codec.hpp"

namespace millrace {

/// One entry of the list of messages, with the type erased: the bus encodes and
/// decodes actor messages through it.
struct message_type {
  std::string_view name;
  void (*encode)(encoder& out, const void* value);
  result<caf::message> (*decode)(const_bytes body, decode_context& ctx);
};

/// Null for an unknown name.
const message_type* find_message_type(std::string_view name);

/// Null for a type that is not on the list of messages.
const message_type* find_message_type(const std::type_info& type);

/// Names of all messages, in the order of the list.
std::vector<std::string_view> message_names();

} // namespace millrace

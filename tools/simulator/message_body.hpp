// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "transport/codec.hpp"

namespace millrace::simulator {

/// An address book without actors, for code that inspects messages in transit.
class empty_address_book : public address_book {
public:
  std::string address_of(const caf::strong_actor_ptr&) override { return {}; }
  caf::strong_actor_ptr resolve(std::string_view) override { return nullptr; }
};

/// Decodes a message in transit; empty if it has another type. Actors in the
/// result are null.
template <class T>
std::optional<T> body_of(const wire_message& message) {
  if (message.head.t != T::record_name())
    return std::nullopt;
  empty_address_book nobody;
  decode_context ctx{timestamp{}, &nobody, message.attachments, 0};
  auto out = decode<T>(message.body.view(), ctx);
  return out ? std::optional{std::move(*out)} : std::nullopt;
}

} // namespace millrace::simulator

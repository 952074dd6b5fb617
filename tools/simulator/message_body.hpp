// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "transport/codec.hpp"

namespace millrace::simulator {

/// Knows nobody: who looks at messages on their way has no use for actors.
class empty_address_book : public address_book {
public:
  std::string address_of(const caf::strong_actor_ptr&) override { return {}; }
  caf::strong_actor_ptr resolve(std::string_view) override { return nullptr; }
};

/// What a message on its way says, if it is of that type; actors in it are
/// null.
template <class T>
std::optional<T> body_of(const wire_message& x) {
  if (x.head.t != T::record_name())
    return std::nullopt;
  empty_address_book nobody;
  decode_context ctx{timestamp{}, &nobody, x.attachments, 0};
  auto out = decode<T>(x.body.view(), ctx);
  return out ? std::optional{std::move(*out)} : std::nullopt;
}

} // namespace millrace::simulator

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "transport/messages/infer.hpp"
#include "transport/wire.hpp"

namespace millrace {

/// What a client may say, as the gateway gets it.
using client_message =
  std::variant<client_request, client_cancel, client_describe>;

/// Decodes a client's message.
/// Errors: forbidden for other types; bad_request, too_large.
result<client_message> decode_client_message(const session& from,
                                             const wire_message& x,
                                             timestamp now);

} // namespace millrace

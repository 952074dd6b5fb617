// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <caf/message.hpp>

#include "transport/messages/infer.hpp"
#include "transport/wire.hpp"

namespace millrace {

/// Decodes what a client says into what the gateway gets: a client_request, a
/// client_cancel or a client_describe.
/// Errors: forbidden for other types; bad_request, too_large.
result<caf::message> decode_client_message(session from, wire_message& x,
                                           timestamp now);

} // namespace millrace

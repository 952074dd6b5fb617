// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include <caf/message.hpp>

#include "transport/messages/infer.hpp"
#include "transport/wire.hpp"

namespace millrace {

/// What becomes of a client's frame.
struct client_frame {
  /// What the gateway gets, in the order of the frame: client_requests,
  /// client_cancel, client_describe.
  std::vector<caf::message> accepted;

  struct refusal {
    client_tag tag;
    error why;
    /// No honest client says that: undecodable, or another role's message.
    bool offence = false;
  };
  /// Forbidden for what clients may not say; bad_request, too_large. With id 0
  /// where a header cannot be read. What follows such a header or one of
  /// another protocol version, a body that is no MessagePack, the 64th message
  /// or a message that is over the frame's budget is lost.
  std::vector<refusal> refused;

  size_t messages = 0; ///< those with a header, however they ended
};

/// Decodes what a client says. `net` is who answers requests that no gateway
/// takes; null in tests of decoding alone.
client_frame decode_client_frame(bus* net, const session& from,
                                 const_bytes first,
                                 std::span<const shared_bytes> raw,
                                 timestamp now);

} // namespace millrace

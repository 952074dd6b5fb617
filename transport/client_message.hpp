// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include <caf/message.hpp>

#include "transport/messages/infer.hpp"
#include "transport/wire.hpp"

namespace millrace {

/// Result of decoding a client's frame.
struct client_frame {
  /// Messages for the gateway, in the order of the frame: client_requests,
  /// client_cancel, client_describe.
  std::vector<caf::message> accepted;

  struct refusal {
    client_tag tag;
    error why;
    /// Misconduct: an undecodable message, or one that clients may not send.
    bool offence = false;
  };
  /// Forbidden for a message that clients may not send; bad_request, too_large.
  /// The id is 0 if the header cannot be read. The rest of the frame is lost
  /// after such a header, a header of another protocol version, a body that is
  /// no MessagePack, the 64th message, or a message beyond the frame's budget.
  std::vector<refusal> refused;

  size_t messages = 0; ///< messages with a header, accepted or refused
};

/// Decodes a client's frame. `net` answers requests that no gateway takes; null
/// in tests of decoding alone.
client_frame decode_client_frame(bus* net, const session& from,
                                 const_bytes first,
                                 std::span<const shared_bytes> raw,
                                 timestamp now);

} // namespace millrace

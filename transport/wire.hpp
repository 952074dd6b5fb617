// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/bytes.hpp"
#include "runtime/error.hpp"
#include "transport/codec.hpp"
#include "transport/messages/envelope.hpp"

namespace millrace {

/// A message as it travels: header and body as MessagePack maps in one frame,
/// bulk as raw frames that nobody copies.
struct wire_message {
  header head;
  shared_bytes body;
  std::vector<shared_bytes> attachments;

  size_t bytes() const {
    auto n = body.size();
    for (auto& x : attachments)
      n += x.size();
    return n;
  }
};

/// Limits of one message on any socket.
struct wire_limits {
  static constexpr size_t header_bytes = 4096;
  static constexpr size_t attachments = 4096;
  static constexpr size_t message_bytes = 256u << 20;
};

/// A declared message ready to travel, but for where to and which id.
template <declared T>
wire_message make_wire_message(const T& x, timestamp now, address_book* book) {
  encoder body{now, book};
  body.put_sparse(x);
  wire_message out;
  out.head.v = protocol_version;
  out.head.t = T::record_name();
  out.body = body.take_body();
  out.attachments = body.take_attachments();
  return out;
}

/// What the first frame begins with. Deadlines become time left.
shared_bytes encode_header(const header& x, timestamp now);

/// A first frame, taken apart; the body is a part of the frame.
struct opened_frame {
  header head;
  const_bytes body;
};

/// Errors: bad_request; also for another protocol version, naming both;
/// too_large for a long header.
result<opened_frame> open_frame(const_bytes frame, timestamp now);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#include "transport/wire.hpp"

namespace millrace {

shared_bytes encode_header(const header& x, timestamp now) {
  encoder out{now, nullptr};
  out.put_sparse(x);
  return out.take_body();
}

result<header> decode_header(const_bytes frame, timestamp now) {
  if (frame.size() > wire_limits::header_bytes)
    return error{ec::too_large, "the header has more than 4096 bytes", {}};
  decode_context ctx{now, nullptr, {}, 0};
  auto x = decode<header>(frame, ctx);
  if (x && x->v != protocol_version)
    return error{ec::bad_request,
                 "protocol version " + std::to_string(x->v)
                   + " is not spoken here (expected "
                   + std::to_string(protocol_version) + " in header key 'v')",
                 {}};
  return x;
}

} // namespace millrace

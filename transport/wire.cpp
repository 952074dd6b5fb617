// SPDX-License-Identifier: Apache-2.0
#include "transport/wire.hpp"

namespace millrace {

shared_bytes encode_header(const header& x, timestamp now) {
  encoder out{now, nullptr};
  out.put_sparse(x);
  return out.take_body();
}

result<opened_frame> open_frame(const_bytes frame, timestamp now) {
  opened_frame out;
  decode_context ctx{now, nullptr, {}, 0};
  auto front = frame.first(std::min(frame.size(), wire_limits::header_bytes));
  auto n = decode_front({&out.head, &kind_of<header>()}, front, ctx);
  if (!n && front.size() < frame.size())
    return error{ec::too_large,
                 "the first frame does not begin with a header of at most 4096"
                 " bytes: "
                   + n.failure().text,
                 {}};
  if (!n)
    return std::move(n.failure()).within("header");
  if (out.head.v != protocol_version)
    return error{ec::bad_request,
                 "protocol version " + std::to_string(out.head.v)
                   + " is not spoken here (expected "
                   + std::to_string(protocol_version) + " in header key 'v')",
                 {}};
  out.body = frame.subspan(*n);
  return out;
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#include "transport/client_message.hpp"

#include "runtime/text.hpp"
#include "transport/access.hpp"
#include "transport/codec.hpp"

namespace millrace {

result<caf::message> decode_client_message(session from, wire_message& x,
                                           timestamp now) {
  auto& head = x.head;
  if (!may_say(role::client, head.t))
    return error{ec::forbidden, "clients may not say " + shown(head.t), {}};
  decode_context ctx{now, nullptr, x.attachments, 0};
  if (head.t == infer::record_name()) {
    // Decoded where it stays: a request is many small moves.
    auto out = caf::make_message(
      client_request{std::move(from), head.id, head.left, head.prio,
                     std::move(head.trace), infer{}});
    auto& request = out.get_mutable_as<client_request>(0).request;
    auto done = decode_into({&request, &kind_of<infer>()}, x.body.view(), ctx);
    if (!done)
      return done.failure();
    return out;
  }
  if (head.t == cancel::record_name())
    return caf::make_message(client_cancel{std::move(from), head.id});
  auto what = decode<describe_models>(x.body.view(), ctx);
  if (!what)
    return what.failure();
  return caf::make_message(
    client_describe{std::move(from), head.id, std::move(what->model)});
}

} // namespace millrace

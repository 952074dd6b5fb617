// SPDX-License-Identifier: Apache-2.0
#include "transport/client_message.hpp"

#include "runtime/text.hpp"
#include "transport/access.hpp"
#include "transport/codec.hpp"

namespace millrace {

result<client_message> decode_client_message(const session& from,
                                             const wire_message& x,
                                             timestamp now) {
  auto& head = x.head;
  if (!may_say(role::client, head.t))
    return error{ec::forbidden, "clients may not say " + shown(head.t), {}};
  decode_context ctx{now, nullptr, x.attachments, 0};
  if (head.t == infer::record_name()) {
    auto request = decode<infer>(x.body.view(), ctx);
    if (!request)
      return request.failure();
    return client_message{client_request{from, head.id, head.left, head.prio,
                                         head.trace, std::move(*request)}};
  }
  if (head.t == cancel::record_name())
    return client_message{client_cancel{from, head.id}};
  auto what = decode<describe_models>(x.body.view(), ctx);
  if (!what)
    return what.failure();
  return client_message{client_describe{from, head.id, what->model}};
}

} // namespace millrace

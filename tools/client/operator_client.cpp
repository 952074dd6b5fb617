// SPDX-License-Identifier: Apache-2.0
#include "client/operator_client.hpp"

#include <algorithm>

namespace millrace {

result<operator_client> operator_client::connect(const std::string& address,
                                                 microseconds longest) {
  auto x = connection::open(address, longest);
  if (!x)
    return x.failure();
  return operator_client{std::move(*x)};
}

uint64_t operator_client::send_wire(const std::string& to, wire_message x) {
  x.head.id = ++last_;
  x.head.to = to;
  link_->send(x);
  return last_;
}

std::map<uint64_t, wire_message>
operator_client::wait(std::vector<uint64_t> ids, microseconds longest) {
  std::map<uint64_t, wire_message> out;
  auto until = link_->now() + longest;
  while (out.size() < ids.size()) {
    auto x = link_->receive(to_us(until - link_->now()));
    if (!x)
      break;
    if (std::find(ids.begin(), ids.end(), x->head.id) != ids.end())
      out.emplace(x->head.id, std::move(*x));
  }
  return out;
}

} // namespace millrace

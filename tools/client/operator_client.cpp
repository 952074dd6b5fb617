// SPDX-License-Identifier: Apache-2.0
#include "client/operator_client.hpp"

#include <algorithm>

namespace millrace {

result<operator_client> operator_client::connect(const std::string& address,
                                                 microseconds longest,
                                                 const std::string& key) {
  auto x = connection::open(address, longest, key);
  if (!x)
    return x.failure();
  return operator_client{std::move(*x)};
}

std::map<uint64_t, wire_message>
operator_client::wait(std::vector<uint64_t> ids, microseconds longest) {
  std::map<uint64_t, wire_message> out;
  auto until = link_->now() + longest;
  while (out.size() < ids.size()) {
    auto x = link_->receive(to_us(until - link_->now()));
    if (!x) {
      link_->was_lost(); // a new connection is being made
      break;
    }
    auto opened = open_frame(x->first.view(), link_->now());
    if (!opened
        || std::find(ids.begin(), ids.end(), opened->head.id) == ids.end())
      continue;
    auto body = x->first.slice(x->first.size() - opened->body.size(),
                               opened->body.size());
    out.emplace(opened->head.id,
                wire_message{std::move(opened->head), std::move(body),
                             std::move(x->raw)});
  }
  return out;
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#include "transport/zmq/connection_watch.hpp"

#include "runtime/text.hpp"

namespace millrace::zeromq {

connection_watch::connection_watch(zmq::context_t& context,
                                   zmq::socket_t& router)
  : events_(context, router, ZMQ_EVENT_DISCONNECTED) {
}

void connection_watch::saw(const std::string& connection,
                           zmq::message_t& frame) {
  if (descriptors_.contains(connection))
    return;
  auto* text = zmq_msg_gets(frame.handle(), "__fd");
  auto descriptor = text == nullptr ? std::nullopt : number_in<int>(text);
  if (!descriptor)
    return;
  descriptors_.emplace(connection, *descriptor);
  by_descriptor_.insert_or_assign(*descriptor, connection);
}

std::vector<std::string> connection_watch::take_left() {
  // What had a descriptor or a name before has ended, and libzmq's one I/O
  // thread says so before it hands on what came on the next connection.
  std::vector<std::string> out;
  while (auto x = events_.next()) {
    auto i = by_descriptor_.find(x->value);
    if (i == by_descriptor_.end())
      continue;
    descriptors_.erase(i->second);
    out.push_back(std::move(i->second));
    by_descriptor_.erase(i);
  }
  return out;
}

} // namespace millrace::zeromq

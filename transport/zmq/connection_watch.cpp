// SPDX-License-Identifier: Apache-2.0
#include "transport/zmq/connection_watch.hpp"

#include <utility>

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
  // What had the descriptor before has ended, and libzmq's one I/O thread said
  // so before it took in this message: those events are not this one's.
  take_events();
  left(*descriptor);
  descriptors_.emplace(connection, *descriptor);
  by_descriptor_.emplace(*descriptor, connection);
}

void connection_watch::left(int descriptor) {
  auto i = by_descriptor_.find(descriptor);
  if (i == by_descriptor_.end())
    return;
  descriptors_.erase(i->second);
  left_.push_back(std::move(i->second));
  by_descriptor_.erase(i);
}

void connection_watch::take_events() {
  while (auto x = events_.next())
    left(x->value);
}

std::vector<std::string> connection_watch::take_left() {
  take_events();
  return std::exchange(left_, {});
}

} // namespace millrace::zeromq

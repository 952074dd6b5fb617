// SPDX-License-Identifier: Apache-2.0
#include "transport/zmq/connection_watch.hpp"

#include <sys/socket.h>

#include "runtime/text.hpp"

namespace millrace::zeromq {

connection_watch::connection_watch(zmq::context_t& context,
                                   zmq::socket_t& router)
  : events_(context, router, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) {
}

void connection_watch::look(timestamp now) {
  // libzmq's only I/O thread reports the end of a connection before it delivers
  // messages of the next connection with that descriptor or name.
  while (auto x = events_.next()) {
    if (x->kind == ZMQ_EVENT_ACCEPTED) {
      open_[x->value] = now;
      begun_.emplace_back(now, x->value);
      continue;
    }
    open_.erase(x->value);
    if (auto i = by_descriptor_.extract(x->value)) {
      descriptors_.erase(i.mapped());
      left_.push_back(std::move(i.mapped()));
    }
  }
}

void connection_watch::end_silent(timestamp now) {
  for (; !begun_.empty() && begun_.front().first + patience <= now;
       begun_.pop_front()) {
    auto [since, descriptor] = begun_.front();
    auto i = open_.find(descriptor);
    if (i != open_.end() && i->second == since
        && !by_descriptor_.contains(descriptor))
      ::shutdown(descriptor, SHUT_RDWR);
  }
}

void connection_watch::saw(const std::string& connection, zmq::message_t& frame,
                           timestamp now) {
  if (descriptors_.contains(connection))
    return;
  look(now);
  auto* text = zmq_msg_gets(frame.handle(), "__fd");
  auto descriptor = text == nullptr ? std::nullopt : number_in<int>(text);
  if (!descriptor)
    return;
  if (!open_.contains(*descriptor)) {
    left_.push_back(connection);
    return;
  }
  auto& name = by_descriptor_[*descriptor];
  descriptors_.erase(name); // its end was reported late
  name = connection;
  descriptors_.emplace(connection, *descriptor);
}

} // namespace millrace::zeromq

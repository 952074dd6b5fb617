// SPDX-License-Identifier: Apache-2.0
#include "transport/zmq/connection_watch.hpp"

#include <atomic>
#include <cstring>
#include <utility>

#include "runtime/text.hpp"

namespace millrace::zeromq {

connection_watch::connection_watch(zmq::context_t& context,
                                   zmq::socket_t& router)
  : events_(context, zmq::socket_type::pair) {
  static std::atomic<uint64_t> count{0};
  auto endpoint = "inproc://connections-" + std::to_string(++count);
  zmq_socket_monitor(router.handle(), endpoint.c_str(), ZMQ_EVENT_DISCONNECTED);
  events_.set(zmq::sockopt::linger, 0);
  events_.set(zmq::sockopt::rcvhwm, 0); // or libzmq would wait for this thread
  events_.connect(endpoint);
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
  zmq::message_t event, source;
  while (events_.recv(event, zmq::recv_flags::dontwait)) {
    static_cast<void>(events_.recv(source, zmq::recv_flags::dontwait));
    // zmq_socket_monitor(3): 16 bits of event, 32 bits of descriptor.
    int32_t descriptor = -1;
    if (event.size() == 6) {
      std::memcpy(&descriptor, event.data<char>() + 2, sizeof descriptor);
      left(descriptor);
    }
  }
}

std::vector<std::string> connection_watch::take_left() {
  take_events();
  return std::exchange(left_, {});
}

} // namespace millrace::zeromq

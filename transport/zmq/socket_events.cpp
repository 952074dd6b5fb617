// SPDX-License-Identifier: Apache-2.0
#include "transport/zmq/socket_events.hpp"

#include <atomic>
#include <cstring>
#include <string>

#include "transport/zmq/socket.hpp"

namespace millrace::zeromq {

socket_events::socket_events(zmq::context_t& context, zmq::socket_t& of,
                             int which)
  : of_(of.handle()),
    pipe_(context, zmq::socket_type::pair) {
  static std::atomic<uint64_t> count{0};
  auto endpoint = "inproc://events-" + std::to_string(++count);
  zmq_socket_monitor(of_, endpoint.c_str(), which);
  pipe_.set(zmq::sockopt::linger, 0);
  pipe_.set(zmq::sockopt::rcvhwm, 0); // a full queue would block the I/O thread
  pipe_.connect(endpoint);
}

void socket_events::stop() {
  if (auto* of = std::exchange(of_, nullptr))
    zmq_socket_monitor(of, nullptr, 0);
}

std::optional<socket_events::event> socket_events::next() {
  zmq::message_t what, source;
  auto take = [this](zmq::message_t& x) {
    return undisturbed(
      [&] { return pipe_.recv(x, zmq::recv_flags::dontwait); });
  };
  if (of_ == nullptr || !take(what))
    return std::nullopt;
  static_cast<void>(take(source));
  uint16_t kind = 0; // 16 bits of event, 32 bits of value
  int32_t value = 0;
  if (what.size() == sizeof kind + sizeof value) {
    std::memcpy(&kind, what.data(), sizeof kind);
    std::memcpy(&value, what.data<char>() + sizeof kind, sizeof value);
  }
  return event{kind, value};
}

} // namespace millrace::zeromq

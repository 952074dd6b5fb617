// SPDX-License-Identifier: Apache-2.0
#include "transport/zmq/curve.hpp"

#include <array>
#include <vector>

#include "transport/keys/key_pair.hpp"
#include "transport/zmq/socket.hpp"

namespace millrace {

key_pair make_key_pair() {
  std::array<char, 41> public_key{}, secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0)
    throw zmq::error_t{};
  return {public_key.data(), secret_key.data()};
}

bool belong_together(const key_pair& keys) {
  std::array<char, 41> public_key{};
  return zmq_curve_public(public_key.data(), keys.secret_key.c_str()) == 0
         && keys.public_key == public_key.data();
}

} // namespace millrace

namespace millrace::zeromq {

namespace {

constexpr size_t key_bytes = 32;

} // namespace

void serve_with(zmq::socket_t& socket, const curve_server& how) {
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, how.own.secret_key);
  socket.set(zmq::sockopt::zap_domain, how.domain);
}

void connect_with(zmq::socket_t& socket, const key_pair& own,
                  const std::string& server_key) {
  socket.set(zmq::sockopt::curve_publickey, own.public_key);
  socket.set(zmq::sockopt::curve_secretkey, own.secret_key);
  socket.set(zmq::sockopt::curve_serverkey, server_key);
}

std::string_view key_of(zmq::message_t& message) {
  auto* key = zmq_msg_gets(message.handle(), "User-Id");
  return key == nullptr ? std::string_view{} : std::string_view{key};
}

door::door(zmq::context_t& context)
  : questions_(context, zmq::socket_type::rep) {
  questions_.set(zmq::sockopt::linger, 0);
  questions_.bind("inproc://zeromq.zap.01");
}

bool door::answer(const judge& may_come_in) {
  enum frame : size_t {
    version,
    request_id,
    domain,
    address,
    routing_id,
    mechanism,
    credentials,
    all_frames
  };
  std::vector<zmq::message_t> asked;
  do {
    auto& frame = asked.emplace_back();
    if (!undisturbed(
          [&] { return questions_.recv(frame, zmq::recv_flags::dontwait); }))
      return false;
  } while (asked.back().more());
  std::array<char, 41> key{};
  auto fine =
    asked.size() == all_frames && asked[mechanism].to_string_view() == "CURVE"
    && asked[credentials].size() == key_bytes
    && zmq_z85_encode(key.data(), asked[credentials].data<uint8_t>(), key_bytes)
         != nullptr
    && may_come_in(asked[domain].to_string_view(), key.data(),
                   asked[address].to_string_view());
  auto say = [&](std::string_view x, bool more = true) {
    auto flags = more ? zmq::send_flags::sndmore : zmq::send_flags::none;
    undisturbed([&] { return questions_.send(zmq::buffer(x), flags); });
  };
  say("1.0");
  say(asked.size() > request_id ? asked[request_id].to_string_view() : "");
  say(fine ? "200" : "400");
  say(fine ? "OK" : "not allowed");
  say(fine ? key.data() : ""); // the User-Id of later messages
  say("", false);
  return true;
}

} // namespace millrace::zeromq

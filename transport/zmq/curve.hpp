// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <zmq.hpp>

#include "runtime/error.hpp"
#include "transport/keys/key_pair.hpp"

namespace millrace::zeromq {

/// Settings of a bound socket that requires CURVE. Each new connection causes a
/// ZAP request with `domain` (see door).
struct curve_server {
  key_pair own;
  std::string domain;
};

/// Call before the socket is bound.
void serve_with(zmq::socket_t& socket, const curve_server& how);

/// Call before the socket connects to the server with that key.
void connect_with(zmq::socket_t& socket, const key_pair& own,
                  const std::string& server_key);

/// The verified public key of the connection of a message; empty if the
/// connection has none.
std::string_view key_of(zmq::message_t& message);

/// Receives the ZAP requests (RFC 27) of all sockets of a context: whether a
/// connection may be made. Open before any such socket is bound, and poll: no
/// connection is made without an answer. For one thread.
class door {
public:
  explicit door(zmq::context_t& context);

  zmq::socket_t& socket() { return questions_; }

  using judge =
    std::function<bool(std::string_view domain, std::string_view public_key,
                       std::string_view address)>;

  /// Answers one request; false if there is none.
  bool answer(const judge& may_come_in);

private:
  zmq::socket_t questions_;
};

} // namespace millrace::zeromq

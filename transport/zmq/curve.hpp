// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <zmq.hpp>

#include "runtime/error.hpp"
#include "transport/keys/key_pair.hpp"

namespace millrace::zeromq {

/// What a socket that binds needs to speak CURVE and to ask who knocks; the
/// domain is what the question says (see door).
struct curve_server {
  key_pair own;
  std::string domain;
};

/// For a socket that is about to bind.
void serve_with(zmq::socket_t& x, const curve_server& how);

/// For a socket that is about to connect, to who has that key.
void connect_with(zmq::socket_t& x, const key_pair& own,
                  const std::string& server_key);

/// Whose connection a message came on: the public key, which is checked; empty
/// where the connection has none.
std::string_view key_of(zmq::message_t& x);

/// Where libzmq asks, for all sockets of a context, whether a connection may
/// be made (RFC 27/ZAP). To be opened before such a socket is bound, and
/// polled: nobody comes in meanwhile. For one thread.
class door {
public:
  explicit door(zmq::context_t& context);

  zmq::socket_t& socket() { return questions_; }

  using judge =
    std::function<bool(std::string_view domain, std::string_view public_key,
                       std::string_view address)>;

  /// Answers one question; false when there is none.
  bool answer(const judge& may_come_in);

private:
  zmq::socket_t questions_;
};

} // namespace millrace::zeromq

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "client/connection.hpp"
#include "transport/codec.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

/// Asks a cluster's actors things, through one node's endpoint for operators.
/// For one thread.
class operator_client {
public:
  /// Connects, with the key in that file where the cluster has keys.
  /// Errors: as connection::open.
  static result<operator_client> connect(const std::string& address,
                                         microseconds longest = 2s,
                                         const std::string& key = {});

  /// Sends a request to NODE/NAME; its answer comes from one of the next waits.
  template <class T>
  uint64_t send(const std::string& to, const T& x) {
    frame_writer out;
    header head;
    head.id = ++last_;
    head.to = to;
    out.add(std::move(head), x, link_->now());
    link_->was_lost(); // this goes out on what is there now
    link_->send(out.take());
    return last_;
  }

  /// Waits for the answers to all of these, at most so long; those that did
  /// not come are not in the map.
  std::map<uint64_t, wire_message> wait(std::vector<uint64_t> ids,
                                        microseconds longest);

  /// Lets so much time pass.
  void idle(microseconds time) { wait({0}, time); }

  /// Reads an answer. Errors: the actor's own; unavailable without an answer.
  template <class T>
  result<T> read(const wire_message& x) {
    decode_context ctx{link_->now(), nullptr, x.attachments, 0};
    if (x.head.t == error_reply::record_name()) {
      auto y = decode<error_reply>(x.body.view(), ctx);
      if (!y)
        return y.failure();
      return error{y->code, y->text, y->retry_after};
    }
    if (x.head.t != T::record_name())
      return error{ec::internal,
                   "expected an answer of type " + std::string{T::record_name()}
                     + ", got " + x.head.t
                     + " (is the address one for operators?)",
                   {}};
    return decode<T>(x.body.view(), ctx);
  }

  /// One request and its answer.
  template <class T, class Request>
  result<T> ask(const std::string& to, const Request& x,
                microseconds longest = 2s) {
    auto id = send(to, x);
    auto answers = wait({id}, longest);
    if (answers.empty())
      return error{ec::unavailable, to + " did not answer in time", {}};
    return read<T>(answers.begin()->second);
  }

private:
  explicit operator_client(std::unique_ptr<connection> x)
    : link_(std::move(x)) {}

  std::unique_ptr<connection> link_;
  uint64_t last_ = 0;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "client/connection.hpp"
#include "transport/codec.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

/// Sends requests to actors of a cluster, through one node's endpoint for
/// operators. For one thread.
class operator_client {
public:
  /// Connects with the key in that file; empty for a cluster without keys.
  /// Errors: as connection::open.
  static result<operator_client> connect(const std::string& address,
                                         microseconds longest = 2s,
                                         const std::string& key = {});

  /// Sends a request to NODE/NAME; a later wait() returns the answer.
  template <class T>
  uint64_t send(const std::string& to, const T& request) {
    frame_writer out;
    header head;
    head.id = ++last_;
    head.to = to;
    out.add(std::move(head), request, link_->now());
    link_->was_lost(); // forget losses: the request uses the current connection
    link_->send(out.take());
    return last_;
  }

  /// Waits at most `longest` for the answers to these requests. Missing answers
  /// are not in the map.
  std::map<uint64_t, wire_message> wait(std::vector<uint64_t> ids,
                                        microseconds longest);

  /// Waits for a time, and handles messages meanwhile.
  void idle(microseconds time) { wait({0}, time); }

  /// Decodes an answer. Errors: the actor's own; unavailable without an answer.
  template <class T>
  result<T> read(const wire_message& message) {
    decode_context ctx{link_->now(), nullptr, message.attachments, 0};
    if (message.head.t == error_reply::record_name()) {
      auto y = decode<error_reply>(message.body.view(), ctx);
      if (!y)
        return y.failure();
      return error{y->code, y->text, y->retry_after};
    }
    if (message.head.t != T::record_name())
      return error{ec::internal,
                   "expected an answer of type " + std::string{T::record_name()}
                     + ", got " + message.head.t
                     + " (is the address one for operators?)",
                   {}};
    return decode<T>(message.body.view(), ctx);
  }

  /// Sends a request and waits for its answer.
  template <class T, class Request>
  result<T> ask(const std::string& to, const Request& request,
                microseconds longest = 2s) {
    auto id = send(to, request);
    auto answers = wait({id}, longest);
    if (answers.empty())
      return error{ec::unavailable, to + " did not answer in time", {}};
    return read<T>(answers.begin()->second);
  }

private:
  explicit operator_client(std::unique_ptr<connection> link)
    : link_(std::move(link)) {}

  std::unique_ptr<connection> link_;
  uint64_t last_ = 0;
};

} // namespace millrace

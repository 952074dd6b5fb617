// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "transport/zmq/connection_watch.hpp"
#include "transport/zmq/wait_list.hpp"

namespace millrace::zeromq {

/// A bound ROUTER that ends connections without a message. For one thread.
class watched_router {
public:
  watched_router(zmq::context_t& context, zmq::socket_t socket)
    : socket_(std::move(socket)),
      connections_(context, socket_) {}
  watched_router(watched_router&&) = delete;
  ~watched_router() { close(); }

  void close() {
    connections_.stop();
    socket_.close();
  }

  /// The socket for sends. A send may hide pending messages, so the next take()
  /// checks for messages.
  zmq::socket_t& sending() {
    spoke_ = true;
    return socket_;
  }

  void add_to(wait_list& list) {
    list.add(socket_, spoke_);
    list.add(connections_.socket(), changed_);
  }

  /// Calls handle(frames) for each message, a limited number per call.
  template <class F>
  void take(traffic& counts, timestamp now, F handle) {
    take_messages(socket_, spoke_, counts, [&](frame_list& frames) {
      connections_.saw(frames[0].to_string(), frames[1], now);
      handle(frames);
    });
    if (std::exchange(changed_, false))
      connections_.look(now);
    connections_.take_left();
    if (!spoke_)
      connections_.end_silent(now);
  }

private:
  zmq::socket_t socket_;
  connection_watch connections_;
  bool spoke_ = true, changed_ = true; ///< flags: see wait_list
};

} // namespace millrace::zeromq

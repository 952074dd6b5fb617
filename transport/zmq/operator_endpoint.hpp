// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "runtime/reactor.hpp"
#include "transport/operator_session.hpp"
#include "transport/switchboard.hpp"
#include "transport/zmq/authenticator.hpp"
#include "transport/zmq/socket.hpp"
#include "transport/zmq/traffic.hpp"
#include "transport/zmq/watched_router.hpp"

namespace millrace::zeromq {

/// The socket where operators' shells come in: hands what they ask to actors
/// here and, by way of this node, elsewhere, and sends the answers. For the bus
/// thread.
class operator_endpoint {
public:
  /// What the endpoint uses of its bus.
  struct surroundings {
    caf::actor_system& system;
    switchboard& board;
    reactor& host;
    authenticator& who;
    traffic& counts;
    std::string node; ///< this one's name
    /// Has something done on the bus thread; from any thread.
    std::function<void(std::function<void()>)> post;
  };

  operator_endpoint(surroundings all, zmq::context_t& context,
                    zmq::socket_t socket);

  void add_to(wait_list& x) { socket_.add_to(x); }

  void close() { socket_.close(); }

  /// Takes in what operators say, some of it where there is much.
  void take_in();

private:
  /// Routing id, first frame and raw frames.
  void on_frames(frame_list& frames);
  void answer(const std::string& connection, caf::message_id mid,
              const caf::type_erased_tuple& content);
  std::string objection(const identity& who, const wire_message& x);

  /// An order that is not answered yet, for the audit log.
  struct open_order {
    std::string connection;
    uint64_t id;
    identity who;
    std::string what;
  };
  void note_order(const std::string& connection, const identity& who,
                  const wire_message& x);
  void note_outcome(const std::string& connection, const wire_message& x);

  surroundings bus_;
  watched_router socket_;
  const authenticator::endpoint whose_ = authenticator::operators();
  operator_sessions sessions_;
  std::deque<open_order> orders_;
};

} // namespace millrace::zeromq

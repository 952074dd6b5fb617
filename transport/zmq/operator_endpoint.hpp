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

/// The socket for operators' shells: passes their messages to actors of this
/// node and, through this node, of other nodes, and sends the answers. For the
/// bus thread.
class operator_endpoint {
public:
  /// The parts of the bus that the endpoint uses.
  struct surroundings {
    caf::actor_system& system;
    switchboard& board;
    reactor& host;
    authenticator& who;
    traffic& counts;
    std::string node; ///< name of this node
    /// Runs a job on the bus thread; from any thread.
    std::function<void(std::function<void()>)> post;
  };

  operator_endpoint(surroundings all, zmq::context_t& context,
                    zmq::socket_t socket);

  void add_to(wait_list& list) { socket_.add_to(list); }

  void close() { socket_.close(); }

  /// Receives messages of operators, a limited number per call.
  void take_in();

private:
  /// Routing id, first frame and raw frames.
  void on_frames(frame_list& frames);
  void answer(const std::string& connection, caf::message_id mid,
              const caf::type_erased_tuple& content);
  std::string objection(const identity& who, const wire_message& message);

  /// An order without an answer yet, for the audit log.
  struct open_order {
    std::string connection;
    uint64_t id;
    identity who;
    std::string what;
  };
  void note_order(const std::string& connection, const identity& who,
                  const wire_message& message);
  void note_outcome(const std::string& connection, const wire_message& message);

  surroundings bus_;
  watched_router socket_;
  const authenticator::endpoint whose_ = authenticator::operators();
  operator_sessions sessions_;
  std::deque<open_order> orders_;
};

} // namespace millrace::zeromq

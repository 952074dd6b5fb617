// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <unordered_map>

#include <caf/message.hpp>

#include "runtime/reactor.hpp"
#include "transport/bus.hpp"
#include "transport/zmq/authenticator.hpp"
#include "transport/zmq/connection_watch.hpp"
#include "transport/zmq/loans.hpp"
#include "transport/zmq/socket.hpp"
#include "transport/zmq/traffic.hpp"
#include "transport/zmq/wait_list.hpp"

namespace millrace::zeromq {

/// The socket for a tenant's clients: passes their messages to the gateway, and
/// sends the answers. For the bus thread.
class client_endpoint {
public:
  /// `number` identifies the endpoint in sessions; `whose` names the tenant.
  client_endpoint(uint32_t number, authenticator::endpoint whose, bus& net,
                  reactor& host, zmq::context_t& context, zmq::socket_t socket,
                  loan_limits most_unread,
                  std::shared_ptr<std::atomic<size_t>> unread_of_all,
                  authenticator& who, traffic& counts)
    : number_(number),
      whose_(std::move(whose)),
      net_(net),
      host_(host),
      socket_(std::move(socket)),
      most_unread_(most_unread),
      unread_(std::move(unread_of_all)),
      authenticator_(who),
      counts_(counts),
      connections_(context, socket_) {}

  /// Options of its socket. A frame slightly above the documented limit is
  /// still read, to answer too_large; libzmq closes the connection on a longer
  /// frame. Unread answers of a client are limited in bytes (loans), not in
  /// number: a client may have any number of open requests.
  static socket_options options_of(socket_options options,
                                   size_t longest_request) {
    options.send_limit = 0;
    options.longest_frame = wire_limits::message_bytes + (1u << 20);
    return options.for_strangers(longest_request);
  }

  void add_to(wait_list& list) {
    list.add(socket_, said_);
    list.add(connections_.socket(), left_);
  }

  void close() {
    connections_.stop();
    socket_.close();
  }

  /// Sets the actor for clients' messages; null: requests are answered
  /// unavailable.
  void serve(caf::strong_actor_ptr gateway) { gateway_ = std::move(gateway); }

  /// Receives messages of clients, a limited number per call, and informs the
  /// gateway of ended connections.
  void take_in(timestamp now);

  /// Sends an answer. An answer that may share a frame waits for the next
  /// flush, or until the frame is full.
  template <class Reply>
  void answer(const session& to, client_tag tag, const Reply& reply) {
    header head;
    head.id = tag.id;
    if (!tag.grouped) {
      frame_writer alone;
      alone.add(std::move(head), reply);
      return send(to.connection, alone);
    }
    auto& open = open_[to.connection];
    open.add(std::move(head), reply);
    if (open.full())
      send(to.connection, open);
  }

  /// Sends the result of a request. If the outputs are too large for one
  /// message, or there is no room until the client has read earlier answers,
  /// the answer has no outputs and is too_large or overloaded.
  void answer(const session& to, client_tag tag, const infer_reply& reply);

  void flush();

private:
  /// Why the outputs of an answer cannot be kept for a client; nullopt if they
  /// can.
  std::optional<error> refusal_of(const std::string& connection,
                                  const infer_reply& reply);

  void on_frames(frame_list& frames, timestamp now);
  void tell_who_left();
  void hand_on(const session& from, caf::message content);
  loan_limits limits_of(size_t bytes) const;
  void send(const std::string& connection, frame_writer& frames);
  void refuse(const session& to, client_tag tag, const error& why);

  uint32_t number_;
  authenticator::endpoint whose_;
  bus& net_;
  reactor& host_;
  zmq::socket_t socket_;
  loan_limits most_unread_;
  loan_book unread_;
  authenticator& authenticator_;
  traffic& counts_;
  connection_watch connections_;
  bool said_ = true, left_ = true; ///< flags: see wait_list
  std::vector<frame_list> batch_;  ///< messages of this turn
  caf::strong_actor_ptr gateway_;
  std::unordered_map<std::string, frame_writer> open_; ///< by connection
};

} // namespace millrace::zeromq

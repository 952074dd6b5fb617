// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "transport/codec.hpp"
#include "transport/messages/cluster.hpp"
#include "transport/messages/infer.hpp"
#include "transport/messages/peer.hpp"
#include "transport/wire.hpp"

namespace millrace {

/// Connects actors to other nodes and to clients. Safe from any thread. The
/// production bus uses ZeroMQ; the simulated world has its own.
class bus : public address_book {
public:
  /// This node, as other nodes see it.
  virtual const member& self() const = 0;

  /// Publishes an actor as NODE/NAME (on this node also as ./NAME); null
  /// withdraws the name.
  virtual void publish(const std::string& name,
                       caf::strong_actor_ptr actor) = 0;

  /// The published names with this prefix.
  virtual std::vector<std::string>
  published(const std::string& prefix) const = 0;

  /// Sends the actor a peer_up for each linked node with the role (empty: any
  /// role), now and later, and a peer_down when the link is lost. An actor
  /// without a handler for peer_up drops the message. The bus does not keep the
  /// actor alive.
  virtual void subscribe(caf::strong_actor_ptr actor, std::string role) = 0;

  /// This node, its linked nodes, and the lost nodes that have not returned.
  virtual member_list members() const = 0;

  /// Sends client_requests, client_cancel, client_left and client_describe to
  /// the actor. With null, clients are answered `unavailable`.
  virtual void serve_clients(caf::strong_actor_ptr actor) = 0;

  /// Answers a client's request. An answer to a client that has left, or that
  /// does not read, is dropped and counted.
  virtual void answer(const session& to, client_tag tag, infer_reply reply) = 0;
  virtual void answer(const session& to, client_tag tag,
                      model_list_reply reply) = 0;
};

} // namespace millrace

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

/// How actors reach what is not in their own hands: other nodes and clients.
/// Safe from any thread. The real one is ZeroMQ; the simulated world has
/// another.
class bus : public address_book {
public:
  /// This node, as others see it.
  virtual const member& self() const = 0;

  /// Makes an actor reachable as NODE/NAME (and here as ./NAME); null takes the
  /// name back.
  virtual void publish(const std::string& name, caf::strong_actor_ptr x) = 0;

  /// The names that begin so.
  virtual std::vector<std::string>
  published(const std::string& prefix) const = 0;

  /// The actor gets a peer_up for each linked node that has the role (empty:
  /// any), now and later, and a peer_down when its link is lost. For as long as
  /// somebody else keeps the actor.
  virtual void subscribe(caf::strong_actor_ptr x, std::string role) = 0;

  /// This node, those it is linked with, and those that were lost and have not
  /// come back.
  virtual member_list members() const = 0;

  /// The actor gets client_requests, client_cancel, client_left and
  /// client_describe; with
  /// null, clients are told that nobody is there.
  virtual void serve_clients(caf::strong_actor_ptr x) = 0;

  /// Answers a client's request. A client that has left or does not read is
  /// counted, nothing else happens.
  virtual void answer(const session& to, client_tag tag, infer_reply x) = 0;
  virtual void answer(const session& to, client_tag tag,
                      model_list_reply x) = 0;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "runtime/string_map.hpp"
#include "transport/bus.hpp"

namespace millrace {

class remote_actor;

/// Carries messages to linked nodes.
class carrier {
public:
  virtual ~carrier() = default;
  /// Returns false if there is no link to that start of the node, or if its
  /// queue is full. Any thread.
  virtual bool carry(const std::string& node, uint64_t incarnation,
                     wire_message message) = 0;

  /// Incarnation of the linked start of a node; 0: no link. Any thread. Does
  /// not call the switchboard.
  virtual uint64_t incarnation_of(std::string_view node) const = 0;
};

/// Addresses, proxies and delivery: the part of a bus that does not depend on
/// the carrier. A remote actor is a CAF handle like any other: requests, their
/// timeouts, monitors and links work on it, and it goes down with its node.
class switchboard : public address_book {
public:
  switchboard(caf::actor_system& system, std::string node, carrier& out);
  ~switchboard() override;

  // -- addresses, from any thread ---------------------------------------------

  std::string address_of(const caf::strong_actor_ptr& actor) override;
  caf::strong_actor_ptr resolve(std::string_view address) override;
  void publish(const std::string& name, caf::strong_actor_ptr actor);
  std::vector<std::string> published(const std::string& prefix) const;

  //  -- called by the carrier
  //  ----------------------------------------------------

  /// The link with a node is lost: all proxies to the node go down.
  void peer_lost(const member& node, const std::string& reason,
                 caf::execution_unit* host);

  /// A message from a linked node arrived. Handlers run on the host.
  /// Errors: bad_request and too_large as decoding gives them, unknown types
  /// included; a request is then also answered.
  result<void> deliver(const member& from, const wire_message& message,
                       caf::execution_unit* host);

  /// Answers a request that is not delivered with an error.
  void refuse(const member& from, const wire_message& message, const error& why,
              caf::execution_unit* host);

  /// A message from a session that is not a node, such as an operator's shell.
  /// Its answers go to `reply_to`.
  result<void> deliver(const caf::strong_actor_ptr& reply_to,
                       const wire_message& message, caf::execution_unit* host);

  // -- called by proxies ------------------------------------------------------

  /// Encodes a message to a proxy and passes it to the carrier.
  void forward(const remote_actor& to, caf::mailbox_element& what);

  timestamp now() const;

private:
  struct proxy_entry {
    caf::weak_actor_ptr proxy;
    bool watched = false;
  };
  struct peer {
    string_map<proxy_entry> proxies;
    size_t prune_at = 64;
  };

  caf::strong_actor_ptr find_local(std::string_view name);
  /// The local actor of an address, "NODE/NAME" with this node's own name.
  caf::strong_actor_ptr find_here(std::string_view address);
  caf::strong_actor_ptr proxy_for(std::string_view node, std::string_view name,
                                  bool watched);
  /// `from` is the node that sent the message; empty for an operator.
  result<void> hand_over(const std::string& from,
                         const caf::strong_actor_ptr& sender,
                         const caf::strong_actor_ptr& target,
                         const wire_message& message,
                         caf::execution_unit* host);
  void send_remote_down(const member& to, const std::string& actor,
                        const error& reason);
  result<caf::message> decode_content(const wire_message& received);
  void on_monitor_remote(const member& from, const monitor_remote& message);
  void tell_watchers(caf::actor_id id, const std::string& actor,
                     const error& reason);
  void on_remote_down(const member& from, const remote_down& message,
                      caf::execution_unit* host);
  void send_control(const std::string& node, uint64_t incarnation,
                    wire_message message);

  caf::actor_system& system_;
  const std::string node_;
  carrier& out_;
  mutable std::mutex mutex_; // guards the members below
  string_map<caf::strong_actor_ptr> named_;
  /// Full addresses of the named actors.
  std::unordered_map<caf::actor_id, std::string> address_of_;
  /// Unnamed actors with handles on other nodes: their names are "#id".
  std::unordered_map<caf::actor_id, caf::weak_actor_ptr> numbered_;
  size_t prune_numbered_at_ = 256;
  string_map<peer> peers_; ///< nodes with proxies
  /// By watched actor: the nodes to inform, by name.
  std::unordered_map<caf::actor_id, std::map<std::string, member>> watchers_;
};

/// A bus that uses a switchboard for addresses and proxies. A derived class
/// adds the carrier.
class switchboard_bus : public bus, protected carrier {
public:
  std::string address_of(const caf::strong_actor_ptr& actor) override {
    return board_.address_of(actor);
  }
  caf::strong_actor_ptr resolve(std::string_view address) override {
    return board_.resolve(address);
  }
  void publish(const std::string& name, caf::strong_actor_ptr actor) override {
    board_.publish(name, std::move(actor));
  }
  std::vector<std::string> published(const std::string& prefix) const override {
    return board_.published(prefix);
  }

protected:
  switchboard_bus(caf::actor_system& system, std::string node)
    : board_(system, std::move(node), *this) {}

  switchboard board_;
};

/// Encodes the content of an actor message: exactly one declared message, an
/// error, or nothing.
/// Errors: internal when the message is not on the list of messages.
result<wire_message> encode_content(const caf::type_erased_tuple& content,
                                    timestamp now, address_book* book);

} // namespace millrace

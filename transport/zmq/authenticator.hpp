// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "transport/keys/misconduct.hpp"
#include "transport/keys/node_keys.hpp"
#include "transport/zmq/curve.hpp"
#include "transport/zmq/traffic.hpp"
#include "transport/zmq/wait_list.hpp"

namespace millrace::zeromq {

/// Decides which keys may connect to a bus's endpoints, and identifies the
/// sender of each message. Without keys every process that reaches an endpoint
/// is accepted; only processes of this host can. For the bus thread.
class authenticator {
public:
  /// Events for the audit log.
  enum class notable { order, refusal };
  using witness =
    std::function<void(notable, const identity& who, const std::string& what)>;

  authenticator(zmq::context_t& context, std::optional<node_keys> keys,
                traffic& counts, witness report);

  /// Kind of an endpoint: its domain in ZAP requests, and the identity of its
  /// senders.
  struct endpoint {
    std::string domain;
    identity anybody; ///< identity of all senders without keys
  };
  static endpoint peers();
  static endpoint operators();
  static endpoint clients(const std::string& tenant);

  /// CURVE settings of the endpoint's socket; none without keys.
  std::optional<curve_server> secured(const endpoint& place) const;

  void add_to(wait_list& list) {
    if (door_)
      list.add(door_->socket(), asked_);
  }

  /// Answers the pending ZAP requests of libzmq.
  void answer(timestamp now);

  /// The sender of a message at an endpoint. Null if its key is not allowed at
  /// that endpoint, or is suspended. Valid until the list changes.
  const identity* speaker(const endpoint& at, zmq::message_t& frame,
                          timestamp now);

  /// Records misconduct of a sender.
  void offence(const identity& who, const std::string& what, timestamp now);

  /// Passes an event to the witness.
  void note(notable kind, const identity& who, const std::string& what);

  void replace(const allowed_keys& keys) { book_.emplace(keys); }

  bool has_keys() const { return keys_.has_value(); }
  /// This node's own key and role.
  std::optional<key_pair> own() const;
  role own_role() const { return keys_ ? keys_->own_role : role::controller; }
  /// The key to expect from a node when connecting: empty without keys, null if
  /// the list has no key of the node.
  const std::string* key_of(const std::string& node) const;

private:
  static bool fits(std::string_view domain, const identity& who);

  std::optional<node_keys> keys_;
  std::optional<key_book> book_;
  std::optional<door> door_;
  bool asked_ = true; ///< flag: see wait_list
  misconduct misconduct_;
  traffic& counts_;
  witness report_;
};

} // namespace millrace::zeromq

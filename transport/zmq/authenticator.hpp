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

/// Who may come in at a bus's endpoints, and who said what came in. Without
/// keys that is whoever reaches an endpoint, which only processes of this host
/// can. For the bus thread.
class authenticator {
public:
  /// What people have to be able to look up later.
  enum class notable { order, refusal };
  using witness =
    std::function<void(notable, const identity& who, const std::string& what)>;

  authenticator(zmq::context_t& context, std::optional<node_keys> keys,
                traffic& counts, witness report);

  /// What kind of endpoint: its name in questions and whom it is for.
  struct endpoint {
    std::string domain;
    identity anybody; ///< without keys
  };
  static endpoint peers();
  static endpoint operators();
  static endpoint clients(const std::string& tenant);

  /// How the endpoint's socket is bound; nothing without keys.
  std::optional<curve_server> secured(const endpoint& x) const;

  void add_to(wait_list& x) {
    if (door_)
      x.add(door_->socket(), asked_);
  }

  /// Answers libzmq's questions about who knocks.
  void answer(timestamp now);

  /// Who sent a message that came in there: null when its key is not allowed
  /// there (any more) or does not count now. Valid until the list changes.
  const identity* speaker(const endpoint& at, zmq::message_t& frame,
                          timestamp now);

  /// Notes that somebody said what they may not.
  void offence(const identity& who, const std::string& what, timestamp now);

  /// Tells the witness.
  void note(notable kind, const identity& who, const std::string& what);

  void replace(const allowed_keys& x) { book_.emplace(x); }

  bool has_keys() const { return keys_.has_value(); }
  /// This node's own key and role.
  std::optional<key_pair> own() const;
  role own_role() const { return keys_ ? keys_->own_role : role::controller; }
  /// Whom to expect when connecting to a node: empty without keys, null when
  /// that node has none.
  const std::string* key_of(const std::string& node) const;

private:
  static bool fits(std::string_view domain, const identity& x);

  std::optional<node_keys> keys_;
  std::optional<key_book> book_;
  std::optional<door> door_;
  bool asked_ = true; ///< flag: see wait_list
  misconduct misconduct_;
  traffic& counts_;
  witness report_;
};

} // namespace millrace::zeromq

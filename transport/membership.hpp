// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Problem: any thread needs to know which nodes are linked, but only the bus
/// thread receives the events. Each subscribed actor must receive every change
/// once, and in order.
///
/// Approach: a table and a list of subscribers under one mutex. Messages to
/// subscribers are enqueued under the mutex, which fixes their order.
///
/// Callers: the bus thread calls heard() and up(), and for a lost link down(),
/// then tell_down(). The bus ends the proxies of the node between these two
/// calls. Any thread calls incarnation_of(), list() and subscribe().
///
/// States of a node, by name:
///
///     unknown ──heard──▶ heard ──up──▶ up ──down──▶ lost or left
///        ▲                 │            ▲               │
///        └──────down───────┘            └───heard, up───┘
///
/// left: in good order; lost: otherwise. A goodbye that arrives after the loss
/// of the connection turns lost into left.

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/string_map.hpp"
#include "transport/lost_nodes.hpp"

namespace millrace {

/// The nodes that this node is linked with or has lost, and the subscribers to
/// changes. Written by the bus thread, read by any thread.
class membership {
public:
  /// Subscribers run on `host`.
  explicit membership(caf::execution_unit* host) : host_(host) {}

  void set_self(member self) { self_ = std::move(self); }

  /// Messages of this start of a node are accepted. The link may not be up yet.
  void heard(const member& node);

  /// The link works in both directions.
  void up(const member& node);

  /// The link is lost, or was ended on purpose. Does not inform subscribers:
  /// tell_down() does.
  void down(const peer_down& message, timestamp now);
  void tell_down(const peer_down& message);

  /// Incarnation of the linked start; 0: none.
  uint64_t incarnation_of(std::string_view node) const;

  member_list list(timestamp now) const;

  /// See bus::subscribe.
  void subscribe(const caf::strong_actor_ptr& actor, std::string role);

private:
  struct subscriber {
    caf::weak_actor_ptr who;
    std::string role;
  };

  template <class T>
  void tell(const member& about, const T& message);

  caf::execution_unit* host_;
  mutable std::mutex mutex_; // guards the members below
  member self_;
  string_map<uint64_t> heard_;
  std::map<std::string, member> up_;
  lost_nodes lost_;
  lost_nodes left_; ///< in good order
  std::vector<subscriber> subscribers_;
};

} // namespace millrace

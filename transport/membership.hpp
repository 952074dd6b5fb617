// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/string_map.hpp"
#include "transport/lost_nodes.hpp"

namespace millrace {

/// Who a node is linked with and who was lost, and who wants to hear of it.
/// Written by the bus thread, read by any.
class membership {
public:
  /// Subscribers run on the host.
  explicit membership(caf::execution_unit* host) : host_(host) {}

  void set_self(member x) { self_ = std::move(x); }

  /// Messages of that start of a node count, though it may not be up yet.
  void heard(const member& x);

  /// Both halves of the link stand.
  void up(const member& x);

  /// The link is lost, or was ended on purpose; subscribers are not told yet.
  void down(const peer_down& x, timestamp now);
  void tell_down(const peer_down& x);

  /// 0: not linked.
  uint64_t incarnation_of(std::string_view node) const;

  member_list list(timestamp now) const;

  /// See bus::subscribe.
  void subscribe(const caf::strong_actor_ptr& x, std::string role);

private:
  struct subscriber {
    caf::weak_actor_ptr who;
    std::string role;
  };

  template <class T>
  void tell(const member& about, const T& x);

  caf::execution_unit* host_;
  mutable std::mutex mutex_; // guards what follows
  member self_;
  string_map<uint64_t> heard_;
  std::map<std::string, member> up_;
  lost_nodes lost_;
  lost_nodes left_; ///< in good order
  std::vector<subscriber> subscribers_;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Problem: a node must decide which nodes it is linked with, while processes
/// restart, hang or are cut off, and hellos cross each other or are lost. Both
/// ends of a link must end it together.
///
/// Approach: each node keeps one outgoing connection to each other node and
/// sends a hello with a link number on it. The receiver confirms that number in
/// its heartbeats. To give a link up is to start one with a higher number:
/// messages of the old link are then void at both ends.
///
/// Callers: the bus thread of zmq_bus only. It passes in events (connections,
/// hellos, heartbeats, goodbyes, rejections, a tick per `settings.beat`) and
/// carries out the returned actions. It calls accepts() for each received
/// message and address_of() for each sent one.
///
/// States of a peer:
///
///     unlinked ──its hello accepted──▶ half ──own hello confirmed──▶ up
///        ▲                              │                            │
///        └──────────────────────────────┴────────────────────────────┘
///          connection lost, silence for `timeout`, goodbye, expel,
///          a heartbeat that does not confirm the own hello in time
///
/// half: messages of the peer are accepted. up: also reported by report_up. An
/// exit is reported by report_down. A newer hello returns the peer to half.

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/time.hpp"
#include "transport/messages/peer.hpp"

namespace millrace {

/// Settings of links between nodes.
struct link_settings {
  microseconds beat{100'000};    ///< interval of heartbeats
  microseconds timeout{400'000}; ///< silence after which a peer is lost
  size_t max_peers = 4096; ///< known nodes, and connections to them, at most
  /// Concurrent connections to nodes that are no peers (named by other nodes,
  /// or refused), at most, and how long each lasts. A node is contacted again
  /// when it sends a hello. After `visit_time` the table also retries a
  /// connection that found no free socket, and a hello without an answer.
  size_t max_visits = 64;
  microseconds visit_time{5'000'000};
};

/// One start of a node.
struct origin {
  std::string node;
  uint64_t incarnation = 0;
  uint64_t start = 0;
};

/// Address of a node. `node` is empty while only the address is known.
struct node_address {
  std::string address;
  std::string node;
};

/// Address at which a tenant's clients connect.
struct tenant_address {
  std::string tenant;
  std::string address;
};

/// Actions that a peer table returns to its caller.
struct connect_to {
  std::string address;
  std::string node;
};
struct drop_connection {
  std::string address;
};
struct send_hello {
  std::string address;
  hello what;
};
struct send_heartbeat {
  std::string address;
  heartbeat what;
};
struct send_rejection {
  std::string address;
  hello_rejected what;
};
struct report_up {
  member peer;
};
struct report_down {
  member peer;
  std::string reason;
  bool left = false;    ///< the node said goodbye
  bool returns = false; ///< the node is alive and has begun a new link
};
struct report_stranger { ///< a hello was refused
  member peer;
  std::string reason;
};
struct report_rejected { ///< the hello of this start was refused
  hello_rejected what;
};
using peer_action = std::variant<connect_to, drop_connection, send_hello,
                                 send_heartbeat, send_rejection, report_up,
                                 report_down, report_stranger, report_rejected>;
using peer_actions = std::vector<peer_action>;

/// The links of this node. A link is up when this node's connection stands, the
/// other node's hello has been accepted here, and this node's hello has been
/// accepted there. A hello carries the number up to which the receiver's own
/// hellos are void. The receiver answers with a new hello only if its last one
/// is void, so crossed or repeated hellos do not cause answers without end. A
/// later incarnation of a node replaces an earlier one; a hello of a start that
/// is not later is refused. Pure: events and time in, actions out.
class peer_table {
public:
  peer_table(std::string cluster, member self, link_settings settings,
             std::vector<node_address> seeds, uint64_t start = 0);

  peer_actions start();
  peer_actions on_connected(const std::string& address, timestamp now);
  peer_actions on_disconnected(const std::string& address, timestamp now);
  /// Ends the link with a node; messages of the old link are void.
  peer_actions expel(const std::string& node, const std::string& why,
                     timestamp now);
  /// No socket was free for a connect_to.
  void on_connect_failed(const std::string& address, timestamp now);
  /// `greeting.self` was checked against the connection; see check_hello.
  peer_actions on_hello(const hello& greeting, timestamp now);
  peer_actions on_heartbeat(const origin& from, const heartbeat& message,
                            timestamp now);
  peer_actions on_goodbye(const origin& from, timestamp now);
  /// Ignores a rejection of another start of this node.
  peer_actions on_hello_rejected(const hello_rejected& message) const;
  /// Call every settings.beat.
  peer_actions on_tick(timestamp now);

  /// Whether messages of this start are accepted.
  bool accepts(const origin& start);

  /// Address for messages to that start of a node; null without a connection.
  const std::string* address_of(const std::string& node,
                                uint64_t incarnation) const;
  const member* find(const std::string& node) const;
  std::vector<member> linked() const;
  size_t up_count() const;

private:
  enum class link_state : uint8_t {
    unlinked,
    half, ///< the peer's hello was accepted here
    up    ///< and this node's hello by the peer
  };

  struct peer {
    member info;
    uint64_t start = 0;
    bool connected = false;
    uint64_t our_link = 0; ///< number of the last hello sent
    bool our_link_accepted = false;
    uint64_t their_link = 0; ///< number of the accepted hello; 0: unlinked
    /// Messages of links up to this number are void.
    uint64_t given_up_link = 0;
    timestamp last_heard;
    timestamp last_greeted;
    link_state state = link_state::unlinked;

    bool is_up() const { return state == link_state::up; }
    /// Whether messages of the peer are accepted: half or up.
    bool is_linked() const { return state != link_state::unlinked; }
  };

  struct connection {
    std::string node; ///< that listens at the address, if known
    bool stands = false;
    bool visit = false; ///< closed after `visit_time`: to meet or refuse a node
    bool failed = false;  ///< no socket was free
    timestamp since;      ///< of the visit, or the failure
    uint64_t greeted = 0; ///< number of the last hello sent on it, to any node
    std::optional<hello_rejected> refusal; ///< sent once the connection stands
  };

  hello make_hello(uint64_t link, uint64_t given_up) const;
  void meet(const std::vector<member>& others, timestamp now,
            peer_actions& out);
  peer* at_address(const std::string& address);
  peer* known(const origin& start);
  connection* want(const node_address& address, peer_actions& out);
  connection* visit(const node_address& address, timestamp now,
                    peer_actions& out);
  void tend_connections(timestamp now, peer_actions& out);
  void refuse(const hello& greeting, const std::string& why, uint64_t known,
              bool alive, timestamp now, peer_actions& out);
  bool turn_away(const hello& greeting, timestamp now, peer_actions& out);
  bool make_room(peer_actions& out);
  void forget(const std::string& address, peer_actions& out);
  void greet(peer& p, timestamp now, peer_actions& out);
  void settle(peer& p, peer_actions& out);
  /// Why a link ends; fields as in report_down.
  struct parting {
    std::string reason;
    bool left = false;
    bool returns = false;
  };
  void end(peer& p, const parting& how, peer_actions& out);
  void give_up(peer& p, const parting& how, timestamp now, peer_actions& out);

  std::string cluster_;
  member self_;
  link_settings settings_;
  timestamp last_tick_;
  std::vector<node_address> seeds_;
  uint64_t start_;
  std::map<std::string, connection> connections_; ///< by address
  /// Node by address, to be visited.
  std::map<std::string, std::string> heard_of_;
  /// Last number given to any link; numbers are unique.
  uint64_t last_link_ = 0;
  std::map<std::string, peer> peers_; ///< by name
};

} // namespace millrace

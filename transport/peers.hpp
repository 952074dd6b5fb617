// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/time.hpp"
#include "transport/messages/peer.hpp"

namespace millrace {

/// How links are kept.
struct link_settings {
  microseconds beat{100'000};    ///< how often a node says it is alive
  microseconds timeout{400'000}; ///< silence after which it is not
  size_t max_peers = 4096; ///< nodes known at once, and connections to them
  /// Connections at once to who is no peer (heard of from others, or refused),
  /// and how long they last: a node is met again when it says hello itself.
  /// What cannot be connected to for want of sockets is tried again after that,
  /// and a hello that nobody answered is said again.
  size_t max_visits = 64;
  microseconds visit_time{5'000'000};
};

/// One start of a node.
struct origin {
  std::string node;
  uint64_t incarnation = 0;
  uint64_t start = 0;
};

/// Where a node listens, and whose address that is; the name is empty where
/// the address is all that is known.
struct node_address {
  std::string address;
  std::string node;
};

/// Where a tenant's clients connect.
struct tenant_address {
  std::string tenant;
  std::string address;
};

/// What a peer table wants done.
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
  bool left = false;    ///< on purpose
  bool returns = false; ///< it lives: it has begun a new link
};
struct report_stranger { ///< a hello was not accepted
  member peer;
  std::string reason;
};
struct report_rejected { ///< this start's own hello was not
  hello_rejected what;
};
using peer_action = std::variant<connect_to, drop_connection, send_hello,
                                 send_heartbeat, send_rejection, report_up,
                                 report_down, report_stranger, report_rejected>;
using peer_actions = std::vector<peer_action>;

/// Who is linked with this node. Each node keeps one outgoing connection to
/// every other; a link is up when this node's connection stands, the other's
/// hello has been accepted here and this node's has been accepted there. Giving
/// a link up always starts a new one with a higher number, which ends the old
/// one on the other side too: what both held of each other ends together, and
/// nothing said on the old link counts on the new one. A hello says up to which
/// number the receiver's own are void, and is answered with another only when
/// the receiver's last one is: two that cross each other, or one said twice,
/// cannot go on answering each other. A node's later incarnation replaces an
/// earlier one; a start that is not later than what is known under its name is
/// told so. Pure: events and time in, actions out.
class peer_table {
public:
  peer_table(std::string cluster, member self, link_settings settings,
             std::vector<node_address> seeds, uint64_t start = 0);

  peer_actions start();
  peer_actions on_connected(const std::string& address, timestamp now);
  peer_actions on_disconnected(const std::string& address, timestamp now);
  /// Nothing that it says counts any more.
  peer_actions expel(const std::string& node, const std::string& why,
                     timestamp now);
  /// There were no sockets for a connect_to.
  void on_connect_failed(const std::string& address, timestamp now);
  /// `from` is the connection's, not the message's.
  peer_actions on_hello(const hello& x, timestamp now);
  peer_actions on_heartbeat(const origin& from, const heartbeat& x,
                            timestamp now);
  peer_actions on_goodbye(const origin& from, timestamp now);
  /// Of a refusal that is meant for another start nothing comes.
  peer_actions on_hello_rejected(const hello_rejected& x) const;
  /// To be called every settings.beat.
  peer_actions on_tick(timestamp now);

  /// Whether messages of that start count.
  bool accepts(const origin& x);

  /// Where messages to that start of that node go; null without a link.
  const std::string* address_of(const std::string& node,
                                uint64_t incarnation) const;
  const member* find(const std::string& node) const;
  std::vector<member> linked() const;
  size_t up_count() const;

private:
  struct peer {
    member info;
    uint64_t start = 0;
    bool connected = false;
    uint64_t our_link = 0; ///< number of the hello last sent
    bool our_link_accepted = false;
    uint64_t their_link = 0;    ///< number of the hello accepted; 0: none
    uint64_t given_up_link = 0; ///< what arrives up to this one is void
    timestamp last_heard;
    timestamp last_greeted;
    bool up = false;
  };

  struct connection {
    std::string node; ///< whose address it is
    bool stands = false;
    bool visit = false; ///< only for a while: to see who is there, or to refuse
    bool failed = false;  ///< there were no sockets for it
    timestamp since;      ///< of the visit, or the failure
    uint64_t greeted = 0; ///< the last hello sent on it, whoever is there
    std::optional<hello_rejected> refusal; ///< to be sent once it stands
  };

  hello make_hello(uint64_t link, uint64_t given_up) const;
  void meet(const std::vector<member>& others, timestamp now,
            peer_actions& out);
  peer* at_address(const std::string& address);
  peer* known(const origin& x);
  connection* want(const node_address& x, peer_actions& out);
  connection* visit(const node_address& x, timestamp now, peer_actions& out);
  void tend_connections(timestamp now, peer_actions& out);
  void refuse(const hello& x, const std::string& why, uint64_t known,
              bool alive, timestamp now, peer_actions& out);
  bool turn_away(const hello& x, timestamp now, peer_actions& out);
  bool make_room(peer_actions& out);
  void forget(const std::string& address, peer_actions& out);
  void greet(peer& p, timestamp now, peer_actions& out);
  void settle(peer& p, peer_actions& out);
  /// Why a link ends, and what that says of the other; see report_down.
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
  std::map<std::string, std::string> heard_of_; ///< to be visited: whose it is
  uint64_t last_link_ = 0; ///< of all links, so that each has its own
  std::map<std::string, peer> peers_; ///< by name
};

} // namespace millrace

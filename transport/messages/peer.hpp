// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "transport/messages/envelope.hpp"

namespace millrace {

/// A node as other nodes see it.
struct member {
  std::string name;
  /// Counts the node's starts: a later one replaces an earlier one for good.
  uint64_t incarnation = 0;
  std::string address; ///< where peers connect
  std::vector<std::string> roles;
  std::string rack;
  std::string host = {}; ///< that the node runs on
  /// Bandwidth of the host's link, bytes per second; 0: not known.
  uint64_t network = 0;
  MILLRACE_FIELDS(member, name, incarnation, address, roles, rack, host,
                  network)

  bool has_role(std::string_view wanted) const {
    for (auto& role : roles)
      if (role == wanted)
        return true;
    return false;
  }
};

/// Opens a link and announces members. A node sends a hello first on every
/// connection, again with a higher number to restart a link, and again with the
/// same number to announce new members.
struct hello {
  std::string cluster;
  member self;
  /// Counts this node's attempts to link with the receiver. Messages that
  /// arrive before a hello with a higher number belong to an abandoned link.
  uint64_t link = 0;
  uint64_t given_up = 0; ///< hellos of the receiver up to this number are void
  std::vector<member> members; ///< other nodes with a link to the sender
  /// Random number of each start. It distinguishes two starts with one
  /// incarnation (a lost data directory, or two processes with one name).
  uint64_t start = 0;
  MILLRACE_FIELDS(hello, cluster, self, link, given_up, members, start)
};

/// Answers a hello that is refused for good.
struct hello_rejected {
  std::string node; ///< with the next two: the sender of the hello
  uint64_t incarnation = 0;
  uint64_t start = 0;
  std::string why;
  /// The incarnation that excludes the refused one; 0: another reason.
  uint64_t known = 0;
  bool alive = false; ///< that incarnation has a link to the sender
  MILLRACE_FIELDS(hello_rejected, node, incarnation, start, why, known, alive)
};

/// The sender's bus thread is alive. `link` is the receiver's link number that
/// the sender has accepted (0: none).
struct heartbeat {
  uint64_t link = 0;
  MILLRACE_FIELDS(heartbeat, link)
};

/// The sender leaves in good order.
struct goodbye {
  MILLRACE_FIELDS(goodbye)
};

/// Requests a remote_down when an actor of the receiver ends.
struct monitor_remote {
  std::string actor;
  MILLRACE_FIELDS(monitor_remote, actor)
};

/// A monitored actor has ended, or never existed.
struct remote_down {
  std::string actor;
  error_reply reason;
  MILLRACE_FIELDS(remote_down, actor, reason)
};

/// Local: a link with a node works in both directions.
struct peer_up {
  member peer;
  MILLRACE_FIELDS(peer_up, peer)
};
/// Local: a link with a node is lost.
struct peer_down {
  member peer;
  std::string reason;
  bool left = false;    ///< the node said goodbye
  bool returns = false; ///< the node is alive and has begun a new link
  MILLRACE_FIELDS(peer_down, peer, reason, left, returns)
};

} // namespace millrace

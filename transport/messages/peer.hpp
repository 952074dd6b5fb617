// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "transport/messages/envelope.hpp"

namespace millrace {

/// A node as others know it.
struct member {
  std::string name;
  /// Counts the node's starts: a later one replaces an earlier one for good.
  uint64_t incarnation = 0;
  std::string address; ///< where peers connect
  std::vector<std::string> roles;
  std::string rack;
  std::string host = {}; ///< that it runs on
  uint64_t network = 0;  ///< bytes a second of that host's link; 0: not known
  MILLRACE_FIELDS(member, name, incarnation, address, roles, rack, host,
                  network)

  bool has_role(std::string_view x) const {
    for (auto& role : roles)
      if (role == x)
        return true;
    return false;
  }
};

/// Opens a link and keeps the members known to each other. Sent first on every
/// connection, with a higher number when a link has to start anew, and with the
/// same number when there are new members to tell of.
struct hello {
  std::string cluster;
  member self;
  /// Counts this node's attempts to link with the receiver; what arrives before
  /// a hello with a higher number belongs to a link given up.
  uint64_t link = 0;
  uint64_t given_up = 0; ///< the receiver's hellos up to this one are void
  std::vector<member> members; ///< others the sender is linked with
  /// Drawn by each start, so that two of one incarnation (a data directory that
  /// was lost, two processes under one name) are told apart.
  uint64_t start = 0;
  MILLRACE_FIELDS(hello, cluster, self, link, given_up, members, start)
};

/// Answers a hello that is not accepted and never will be.
struct hello_rejected {
  std::string node; ///< with the next two: whose hello
  uint64_t incarnation = 0;
  uint64_t start = 0;
  std::string why;
  /// The incarnation that stands in the way; 0 when something else does.
  uint64_t known = 0;
  bool alive = false; ///< that one is linked with the sender
  MILLRACE_FIELDS(hello_rejected, node, incarnation, start, why, known, alive)
};

/// Says that the sender's bus thread is alive and which link of the receiver's
/// it has accepted (0: none).
struct heartbeat {
  uint64_t link = 0;
  MILLRACE_FIELDS(heartbeat, link)
};

/// The sender leaves on purpose.
struct goodbye {
  MILLRACE_FIELDS(goodbye)
};

/// Asks to be told when an actor of the receiver's ends.
struct monitor_remote {
  std::string actor;
  MILLRACE_FIELDS(monitor_remote, actor)
};

/// A watched actor has ended, or was never there.
struct remote_down {
  std::string actor;
  error_reply reason;
  MILLRACE_FIELDS(remote_down, actor, reason)
};

/// Local: a link with a node works both ways, or no longer does.
struct peer_up {
  member peer;
  MILLRACE_FIELDS(peer_up, peer)
};
struct peer_down {
  member peer;
  std::string reason;
  bool left = false;    ///< on purpose
  bool returns = false; ///< it lives: it has begun a new link
  MILLRACE_FIELDS(peer_down, peer, reason, left, returns)
};

} // namespace millrace

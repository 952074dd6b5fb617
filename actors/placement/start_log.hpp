// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "runtime/time.hpp"
#include "transport/messages/cluster.hpp"

namespace millrace {

/// How the latest starts of replicas went. Not thread-safe, no I/O.
class start_log {
public:
  static constexpr size_t most = 256; ///< starts in the log

  /// Adds the decision to start a replica.
  void add(const assignment& assigned, timestamp now);

  /// Updates the starts on a node from its inventory.
  void on_inventory(const node_state& node, timestamp now);

  /// Fails the unfinished starts on a lost node.
  void on_lost(const std::string& node);

  /// Returns the time of the decision to start a replica; nothing when the
  /// replica is not in the log or has been ready.
  std::optional<timestamp> begun(const std::string& replica) const;

  /// Whether an inventory has reported the failure of a replica. An inventory
  /// repeats failures.
  bool has_failed(const std::string& replica) const;

  /// Lists the starts, the latest first.
  std::vector<replica_start> list(timestamp now) const;

private:
  struct entry {
    replica_start what;
    timestamp decided;
    bool begun = false; ///< its node has reported the replica
  };

  static bool is_under_way(const entry& started);
  static void give_up(entry& started, replica_condition how,
                      const std::string& why);

  std::deque<entry> entries_; ///< the latest last
};

} // namespace millrace

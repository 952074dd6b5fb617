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
  static constexpr size_t most = 256; ///< of which it knows

  /// It was decided that this one is to be there.
  void add(const assignment& x, timestamp now);

  /// A node says what it has.
  void on_inventory(const node_state& x, timestamp now);

  /// A node is gone.
  void on_lost(const std::string& node);

  /// When it was decided that this one is to be there; none where it is not
  /// known, or has been ready.
  std::optional<timestamp> begun(const std::string& replica) const;

  /// Whether a node has said so of this one: it may say so again.
  bool has_failed(const std::string& replica) const;

  /// The latest first.
  std::vector<replica_start> list(timestamp now) const;

private:
  struct entry {
    replica_start what;
    timestamp decided;
    bool begun = false; ///< its node has said so
  };

  static bool is_under_way(const entry& x);
  static void give_up(entry& x, replica_condition how, const std::string& why);

  std::deque<entry> entries_; ///< the latest last
};

} // namespace millrace

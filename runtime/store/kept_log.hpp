// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/store/audit_journal.hpp"

namespace millrace {

/// Durable log lines of a node: orders and refusals with their sender (the
/// audit log), and events. A thread of the log writes the lines within moments,
/// chained as in audit_journal. Lines above a rate limit are counted instead of
/// stored.
class kept_log {
public:
  virtual ~kept_log() = default;

  /// Stores a line about an effect. Thread-safe, returns at once.
  virtual void keep(std::string line) = 0;

  /// Stores a line that is one of many similar ones: at most ten in each half
  /// second.
  virtual void sample(std::string line) = 0;
};

/// The folders of the audit log and of the events in a data directory.
std::string audit_directory(const std::string& data);
std::string event_directory(const std::string& data);

/// The file in such a folder with the key of the chain: 32 random bytes,
/// readable only by the node's user. Opening the log creates a missing key.
constexpr auto chain_key_file = "chain.key";

/// Opens a log of at most nine files of `part_max` bytes. Lines that the disk
/// refuses stay in memory, at most 10,000, and are retried every half second.
/// Errors: unavailable.
result<std::unique_ptr<kept_log>>
open_kept_log(std::unique_ptr<disk> where, size_t part_max = audit_part_max);

struct kept_lines {
  std::vector<std::string> lines; ///< oldest first
  std::string wrong;              ///< defects of the chain; empty: none
};

/// Reads the lines of a node, also while the node runs. Only the node's user
/// can read the key of the chain; without the key, `wrong` has the reason.
/// Errors: unavailable when the log is missing or unreadable.
result<kept_lines> read_kept_lines(const std::string& directory);

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/store/audit_journal.hpp"

namespace millrace {

/// Lines a node keeps over its lives: who gave it which order and who was
/// refused (the audit log), and what happened to it (its events). They are
/// written within moments by a thread of its own, and chained, see
/// audit_journal; what a storm adds is counted instead of kept.
class kept_log {
public:
  virtual ~kept_log() = default;

  /// Something that had effect. Any thread, returns at once.
  virtual void keep(std::string line) = 0;

  /// One of many that are alike: ten of each half second are kept.
  virtual void sample(std::string line) = 0;
};

/// The folders of a data directory with its audit log and its events.
std::string audit_directory(const std::string& data);
std::string event_directory(const std::string& data);

/// The file in such a folder with the key of its chain: 32 random bytes that
/// the node's user alone can read. Made when the log is opened first.
constexpr auto chain_key_file = "chain.key";

/// Nine files of at most that size are kept. Lines that a disk refuses are kept
/// in memory, 10,000 of them, and offered again every half second. Errors:
/// unavailable.
result<std::unique_ptr<kept_log>>
open_kept_log(std::unique_ptr<disk> where, size_t part_max = audit_part_max);

struct kept_lines {
  std::vector<std::string> lines; ///< the oldest first
  std::string wrong; ///< what was changed or taken out; empty: nothing
};

/// Reads the lines of a node, also while the node runs. Only the node's user
/// can read the chain's key: without the key `wrong` has the reason. Errors:
/// unavailable when there is nothing, or it cannot be read.
result<kept_lines> read_kept_lines(const std::string& directory);

} // namespace millrace

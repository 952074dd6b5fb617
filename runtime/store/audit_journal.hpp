// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/store/disk.hpp"
#include "runtime/store/journal.hpp"

namespace millrace {

/// The journal's file name. Full parts are "audit.journal.1", the newest, to
/// "audit.journal.8"; the oldest part is deleted.
constexpr auto audit_file = "audit.journal";
constexpr int audit_parts = 8;
constexpr size_t audit_part_max = 8u << 20;

/// An append-only log of who did what. Each line is a record with the hash of
/// the record before (journal.hpp), also across parts, so a changed or removed
/// line is detected. With a key, a chain that was recomputed without the key is
/// detected as well. A damaged part is left unchanged, and a new part is begun.
/// Calls block; one thread at a time.
class audit_journal {
public:
  /// Opens the journal to append after its last record. Errors: unavailable.
  static result<std::unique_ptr<audit_journal>>
  open(std::unique_ptr<disk> where, size_t part_max = audit_part_max,
       std::string key = {});

  /// Appends lines and syncs them. Errors: unavailable; the lines may then be
  /// on disk or not.
  result<void> append(const std::vector<std::string>& lines);

private:
  audit_journal(std::unique_ptr<disk> where, size_t part_max, std::string key)
    : disk_(std::move(where)),
      part_max_(part_max),
      key_(std::move(key)) {}

  result<void> recover();
  result<void> begin_part();
  result<void> write_first_line();
  result<void> replace(std::string_view text);

  std::unique_ptr<disk> disk_;
  size_t part_max_;
  std::string key_;
  journal_end end_;
  bool broken_ = false; ///< a write failed: the end of the part is unknown
};

/// The file name of a part; 0 is the current part.
std::string audit_part(int number);

/// Verifies an audit log and returns its defects; empty when it is intact.
/// `parts` are the contents of the parts, oldest first; their lines are
/// appended to `lines`. The oldest part may follow a deleted one.
std::string read_audit(const std::vector<std::string>& parts,
                       std::vector<std::string>& lines,
                       std::string_view key = {});

} // namespace millrace

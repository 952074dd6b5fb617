// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/store/disk.hpp"
#include "runtime/store/journal.hpp"

namespace millrace {

/// The journal's name in its directory. Parts that are full are
/// "audit.journal.1", the last one, to "audit.journal.8"; the oldest goes.
constexpr auto audit_file = "audit.journal";
constexpr int audit_parts = 8;
constexpr size_t audit_part_max = 8u << 20;

/// Who did what, as lines of text that are only ever added: each a record that
/// is chained to the one before (journal.hpp), also from part to part, so that
/// a line that was changed or taken out shows; with a key, also where the chain
/// was computed anew by someone without the key. A part that is damaged is left
/// as it is, and another begun. Blocks; one thread at a time.
class audit_journal {
public:
  /// Goes on after what is there. Errors: unavailable.
  static result<std::unique_ptr<audit_journal>>
  open(std::unique_ptr<disk> where, size_t part_max = audit_part_max,
       std::string key = {});

  /// Adds lines and syncs them. Errors: unavailable; what is on disk is open
  /// then.
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
  bool broken_ = false; ///< a write failed: where the part ends is not known
};

/// The name of a part; 0 is the one that is written to.
std::string audit_part(int number);

/// What is wrong in an audit log; empty when nothing is. `parts` are the texts
/// of its parts, the oldest first, whose lines go to `lines`. The oldest may
/// follow one that is gone.
std::string read_audit(const std::vector<std::string>& parts,
                       std::vector<std::string>& lines,
                       std::string_view key = {});

} // namespace millrace

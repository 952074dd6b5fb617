// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/store/disk.hpp"
#include "runtime/store/facts.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// Migrates rows of one schema to the next.
using fact_migration = std::function<result<void>(fact_tables&)>;

/// Limit of all rows, in bytes of their records.
constexpr size_t facts_max = 16u << 20;

/// Limit of the journal file, in case it cannot be rewritten.
constexpr size_t facts_file_max = 8 * facts_max;

/// Interval at which the owner of a journal calls mend.
constexpr milliseconds mend_pause{1000};

/// A node's durable facts, in memory and as a journal (journal.hpp) on a disk.
/// The first record names the schema; each other record is a row. A journal
/// that has grown long is rewritten with the live rows, as a whole.
///
/// One write is one record, which is synced before it takes effect. A power
/// loss leaves whole records and at most one torn record at the end. Its write
/// was never confirmed, so opening drops it. Any other damage was done by a
/// disk or a person, and opening fails: see replace. (Later damage to the very
/// last record looks like a torn record.)
///
/// After a failed write it is open whether the row exists after a restart. The
/// next write, mend, and each start then write a new file. A disk that recovers
/// therefore needs no restart, and no record follows bytes that may not be on
/// disk.
///
/// Calls block; one thread at a time.
class fact_journal {
public:
  /// Opens the journal `name`, or creates it. `migrations` lead from schema 1
  /// to this program's schema.
  /// Errors: bad_config for a damaged journal, with the position, and for a
  /// newer schema; unavailable when the disk fails.
  static result<std::unique_ptr<fact_journal>>
  open(std::unique_ptr<disk> where, std::string name,
       std::vector<fact_migration> migrations = {});

  /// Replaces a journal by the valid prefix of another journal's text: a
  /// backup, or the rest of a damaged journal. An old journal is saved as
  /// `kept`. Returns the valid prefix.
  /// Errors: those of read_facts; unavailable when the disk fails.
  static result<fact_content> replace(disk& where, const std::string& name,
                                      std::string_view by,
                                      const std::string& kept);

  std::vector<stored_row> rows(const std::string& table) const {
    return facts_.rows(table);
  }
  const fact_tables& tables() const { return facts_.tables(); }

  /// Writes a row; an empty value deletes it. The write takes effect when
  /// commit returns. Only one write may be staged. Returns the row's new
  /// version.
  /// Errors: conflict when the row's version is not `expected` (0: no such
  /// row); too_large; unavailable.
  result<uint64_t> stage(const std::string& table, const std::string& key,
                         const std::string& value, uint64_t expected);
  result<void> commit();

  /// Rewrites the journal if an earlier write or rewrite failed. Errors:
  /// unavailable.
  result<void> mend();

  /// Raises a counter by one, at least to `least`, and returns it; used to
  /// number the starts of a node.
  /// Errors: unavailable.
  result<uint64_t> raise(const std::string& table, const std::string& key,
                         uint64_t least = 0);

  /// The damage that opening repaired; empty: none.
  const std::string& mended() const { return mended_; }

private:
  fact_journal(std::unique_ptr<disk> where, std::string name, uint32_t schema);

  result<void> recover(std::string_view file,
                       const std::vector<fact_migration>& migrations);
  result<void> rewrite();
  bool is_long() const;

  std::unique_ptr<disk> disk_;
  std::string name_;
  uint32_t schema_;
  facts facts_;
  journal_end end_;
  bool broken_ = false;     ///< a write failed: the end of the file is unknown
  bool unfinished_ = false; ///< a rewrite failed
  std::optional<fact> staged_;
  journal_end staged_end_;
  std::string mended_;
};

} // namespace millrace

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

/// Makes rows of one schema rows of the next.
using fact_migration = std::function<result<void>(fact_tables&)>;

/// What may be kept, in bytes of records: facts are few.
constexpr size_t facts_max = 16u << 20;

/// What a journal may grow to, should it be impossible to begin it anew.
constexpr size_t facts_file_max = 8 * facts_max;

/// How often who has a journal has it mended.
constexpr milliseconds mend_pause{1000};

/// A node's durable facts: in memory, and as a journal (journal.hpp) on a disk,
/// whose first record names the schema and whose others are a row each. A
/// journal that has grown long is replaced by one of what is left, as a whole.
///
/// One write is one record, synced before it counts. After a loss of power the
/// journal ends in whole records and at most a torn one, which nobody was told
/// of: that one is dropped. Any other damage is a disk's or a person's, and
/// opening refuses: see replace. (That the very last record was damaged later
/// cannot be told from a torn one.) After a write that failed, whether it will
/// be there after a restart is open; mend, or the next one, begins with a new
/// file, as does every start, so that a disk that is well again needs no
/// restart and nothing stands on bytes that only seem to be there.
///
/// Blocks; one thread at a time.
class fact_journal {
public:
  /// Opens the journal of that name, or begins one. `migrations` lead from
  /// schema 1 to this program's.
  /// Errors: bad_config when it is damaged, saying where, or of a newer schema;
  /// unavailable when the disk refuses.
  static result<std::unique_ptr<fact_journal>>
  open(std::unique_ptr<disk> where, std::string name,
       std::vector<fact_migration> migrations = {});

  /// Puts a text in a journal's place, as far as it is a whole journal: a
  /// backup, or what is left of a damaged one. What was there, if anything,
  /// stays beside it under `kept`. Returns what was whole.
  /// Errors: those of read_facts; unavailable when the disk refuses.
  static result<fact_content> replace(disk& where, const std::string& name,
                                      std::string_view by,
                                      const std::string& kept);

  std::vector<stored_row> rows(const std::string& table) const {
    return facts_.rows(table);
  }
  const fact_tables& tables() const { return facts_.tables(); }

  /// Writes a row, or with an empty value deletes it; it counts when commit has
  /// returned. Returns its new version. One at a time.
  /// Errors: conflict when the row is not at that version (0: there is none);
  /// too_large; unavailable.
  result<uint64_t> stage(const std::string& table, const std::string& key,
                         const std::string& value, uint64_t expected);
  result<void> commit();

  /// After a write or a new beginning that failed: begins anew, if the disk
  /// lets it. Errors: unavailable.
  result<void> mend();

  /// Raises a counter by one, or to `least`: the number of a start.
  /// Errors: unavailable.
  result<uint64_t> raise(const std::string& table, const std::string& key,
                         uint64_t least = 0);

  /// What was found wrong at opening and mended; empty when all was well.
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
  bool broken_ = false;     ///< the file's end is not known
  bool unfinished_ = false; ///< it was to begin anew, and did not
  std::optional<fact> staged_;
  journal_end staged_end_;
  std::string mended_;
};

} // namespace millrace

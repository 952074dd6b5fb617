// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/fact_journal.hpp"

#include <algorithm>
#include <utility>

#include "runtime/assert.hpp"
#include "runtime/log.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// A journal shorter than this is never compacted.
constexpr size_t short_journal = 256u << 10;

/// A longer journal is compacted when it has this many times the size of the
/// live rows.
constexpr size_t worth_compacting = 4;

} // namespace

fact_journal::fact_journal(std::unique_ptr<disk> where, std::string name,
                           uint32_t schema)
  : disk_(std::move(where)),
    name_(std::move(name)),
    schema_(schema) {
}

// -- opening ------------------------------------------------------------------

result<std::unique_ptr<fact_journal>>
fact_journal::open(std::unique_ptr<disk> where, std::string name,
                   std::vector<fact_migration> migrations) {
  auto schema = static_cast<uint32_t>(1 + migrations.size());
  std::unique_ptr<fact_journal> out{
    new fact_journal{std::move(where), std::move(name), schema}};
  auto file = out->disk_->read(out->name_, facts_file_max);
  if (!file)
    return file.failure();
  auto done = *file ? out->recover(**file, migrations) : out->rewrite();
  if (!done)
    return done.failure();
  return out;
}

result<void>
fact_journal::recover(std::string_view file,
                      const std::vector<fact_migration>& migrations) {
  auto path = disk_->path_of(name_);
  auto found = read_facts(file, path);
  if (!found)
    return found.failure();
  if (found->damage && !found->damage->torn)
    return error{ec::bad_config,
                 path + ": " + describe_damage(*found)
                   + ": 'millrace store restore' replaces it by a backup,"
                     " 'millrace store repair' cuts it at the damage",
                 {}};
  if (found->schema > schema_)
    return error{
      ec::bad_config,
      path + ": has schema " + std::to_string(found->schema)
        + ", from a newer Millrace; this version supports schemas up to "
        + std::to_string(schema_),
      {}};
  if (found->damage)
    mended_ = path + ": dropped a torn record; " + describe_damage(*found);
  facts_ = std::move(found->rows);
  if (found->schema < schema_) {
    auto tables = facts_.tables();
    for (auto at = found->schema; at < schema_; ++at)
      if (auto done = migrations[at - 1](tables); !done)
        return std::move(done.failure()).within(path);
    facts_ = facts{std::move(tables)};
  }
  // The file that was read may not be on disk, even if it is synced now: after
  // a failed sync the kernel can hold bytes that it will never write.
  return rewrite();
}

result<fact_content> fact_journal::replace(disk& where, const std::string& name,
                                           std::string_view by,
                                           const std::string& kept) {
  auto found = read_facts(by, "the journal");
  if (!found)
    return found.failure();
  auto old = where.read(name, facts_file_max);
  if (!old)
    return old.failure();
  auto fresh = name + ".new";
  auto done = *old ? write_whole(where, kept, **old) : result<void>{};
  if (done)
    done = write_whole(where, fresh, by.substr(0, found->end.bytes));
  if (done)
    done = where.sync_names();
  if (done)
    done = where.rename(fresh, name);
  if (done)
    done = where.sync_names();
  if (!done)
    return done.failure();
  return found;
}

// -- writing ------------------------------------------------------------------

/// Whether the journal should be compacted.
bool fact_journal::is_long() const {
  return end_.bytes > short_journal
         && end_.bytes > worth_compacting * facts_.bytes();
}

/// Replaces the journal by one with the schema and the live rows.
result<void> fact_journal::rewrite() {
  unfinished_ = true;
  journal_end end;
  auto file = next_record(end, pack_schema(schema_));
  for (auto& [table, rows] : facts_.tables())
    for (auto& [key, row] : rows)
      file += next_record(end, pack({table, row}));
  auto fresh = name_ + ".new";
  auto done = write_whole(*disk_, fresh, file);
  if (done)
    done = disk_->rename(fresh, name_);
  if (!done)
    return done;
  end_ = end;
  done = disk_->sync_names();
  broken_ = unfinished_ = !done;
  return done;
}

result<void> fact_journal::mend() {
  return broken_ || unfinished_ ? rewrite() : result<void>{};
}

result<uint64_t> fact_journal::stage(const std::string& table,
                                     const std::string& key,
                                     const std::string& value,
                                     uint64_t expected) {
  MILLRACE_ASSERT(!staged_);
  auto* old = facts_.find(table, key);
  if ((old == nullptr ? 0 : old->version) != expected)
    return error{ec::conflict,
                 table + "/" + key + " is not at version "
                   + std::to_string(expected),
                 {}};
  fact next{table, {key, value, expected + 1}};
  auto record = pack(next);
  auto bytes = facts_.bytes() + bytes_of(next)
               - (old == nullptr ? 0 : bytes_of({table, *old}));
  if (record.size() > journal_record_max || bytes > facts_max)
    return error{ec::too_large,
                 table + "/" + key + ": a row may have "
                   + format_bytes(journal_record_max) + ", all together "
                   + format_bytes(facts_max),
                 {}};
  auto full = end_.bytes + journal_overhead + record.size() > facts_file_max;
  if (broken_ || full)
    if (auto done = rewrite(); !done)
      return done.failure();
  staged_end_ = end_;
  if (auto done = disk_->append(name_, next_record(staged_end_, record));
      !done) {
    broken_ = true;
    return done.failure();
  }
  staged_ = std::move(next);
  return expected + 1;
}

result<void> fact_journal::commit() {
  MILLRACE_ASSERT(staged_);
  auto next = std::move(*staged_);
  staged_.reset();
  if (auto done = disk_->sync(name_); !done) {
    broken_ = true;
    return done;
  }
  end_ = staged_end_;
  facts_.apply(std::move(next));
  if (!unfinished_ && is_long())
    if (auto done = rewrite(); !done) {
      // The row is on disk in the old journal; mend tries again.
      log_event(log_level::warning, "store", "not_compacted",
                {{"error", to_string(done.failure())}});
    }
  return {};
}

result<uint64_t> fact_journal::raise(const std::string& table,
                                     const std::string& key, uint64_t least) {
  auto* old = facts_.find(table, key);
  auto next = next_count(old ? old->value : "", least);
  auto done = stage(table, key, std::to_string(next), old ? old->version : 0);
  if (!done)
    return done.failure();
  if (auto synced = commit(); !synced)
    return synced.failure();
  return next;
}

} // namespace millrace

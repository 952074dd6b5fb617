// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/audit_journal.hpp"

#include <optional>

namespace millrace {

namespace {

constexpr std::string_view first_line = "begin after ";

/// Read limit: a part exceeds its size by at most one append.
constexpr size_t audit_part_most = 4 * audit_part_max;

/// The hash as text, with which the first line of a part names the last record
/// of the part before.
std::string name_of(const journal_hash& x) {
  constexpr char hex[] = "0123456789abcdef";
  std::string out;
  for (auto byte : x)
    out += {hex[byte >> 4], hex[byte & 15]};
  return out;
}

} // namespace

std::string audit_part(int number) {
  return number == 0 ? audit_file
                     : std::string{audit_file} + "." + std::to_string(number);
}

result<std::unique_ptr<audit_journal>>
audit_journal::open(std::unique_ptr<disk> where, size_t part_max,
                    std::string key) {
  std::unique_ptr<audit_journal> out{
    new audit_journal{std::move(where), part_max, std::move(key)}};
  if (auto done = out->recover(); !done)
    return done.failure();
  return out;
}

/// Finds the end of the current part and rewrites it. After a failed sync,
/// bytes that can be read are not necessarily on disk.
result<void> audit_journal::recover() {
  auto last = disk_->read(audit_file, audit_part_most);
  if (!last)
    return last.failure();
  if (!*last) { // the first start, or begin_part was interrupted
    auto before = disk_->read(audit_part(1), audit_part_most);
    if (!before)
      return before.failure();
    if (*before)
      end_ = read_journal(**before, key_).end;
    return write_first_line();
  }
  auto content = read_journal(**last, key_);
  end_ = content.end;
  if (end_.records == 0 || (content.damage && !content.damage->torn))
    return begin_part();
  return replace(std::string_view{**last}.substr(0, end_.bytes));
}

/// Replaces the current part atomically.
result<void> audit_journal::replace(std::string_view text) {
  const auto fresh = std::string{audit_file} + ".new";
  auto done = write_whole(*disk_, fresh, text);
  if (done)
    done = disk_->rename(fresh, audit_file);
  if (done)
    done = disk_->sync_names();
  broken_ = !done;
  return done;
}

result<void> audit_journal::begin_part() {
  for (int i = audit_parts - 1; i >= 0; --i) {
    auto there = disk_->has(audit_part(i));
    if (!there)
      return there.failure();
    if (!*there)
      continue;
    auto done = disk_->rename(audit_part(i), audit_part(i + 1));
    if (done) // sync each rename, so that power loss cannot reorder the renames
      done = disk_->sync_names();
    broken_ = broken_ || !done;
    if (!done)
      return done;
  }
  return write_first_line();
}

/// Creates the current part, which must not exist; its first line names the
/// record at end_.
result<void> audit_journal::write_first_line() {
  journal_end end;
  auto line =
    next_record(end, std::string{first_line} + name_of(end_.last), key_);
  auto done = replace(line);
  if (done)
    end_ = end;
  return done;
}

result<void> audit_journal::append(const std::vector<std::string>& lines) {
  if (broken_)
    if (auto done = recover(); !done)
      return done;
  if (end_.bytes > part_max_)
    if (auto done = begin_part(); !done)
      return done;
  std::string bytes;
  for (auto& line : lines)
    bytes += next_record(end_, line, key_);
  auto done = disk_->append(audit_file, bytes);
  if (done)
    done = disk_->sync(audit_file);
  broken_ = !done;
  return done;
}

std::string read_audit(const std::vector<std::string>& parts,
                       std::vector<std::string>& lines, std::string_view key) {
  std::string wrong;
  std::optional<journal_hash> before;
  for (auto& part : parts) {
    auto content = read_journal(part, key);
    auto& records = content.records;
    auto fail = [&](const std::string& why) {
      wrong += (wrong.empty() ? "" : "; ") + why;
      lines.push_back("!!! " + why);
    };
    if (records.empty() || !records[0].starts_with(first_line))
      fail("a part does not name the part before it");
    else if (before && records[0].substr(first_line.size()) != name_of(*before))
      fail("a part does not follow the part before it");
    for (size_t i = 1; i < records.size(); ++i)
      lines.emplace_back(records[i]);
    if (content.damage && !content.damage->torn)
      fail("bytes " + std::to_string(content.damage->from) + " to "
           + std::to_string(content.damage->to) + " of a part are damaged");
    before = content.end.last;
  }
  return wrong;
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/facts.hpp"

#include <algorithm>
#include <utility>

#include "runtime/store/little_endian.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

constexpr std::string_view kind = "millrace facts";

/// Size of a row's record without its texts.
constexpr size_t row_overhead = 16;

std::optional<uint32_t> unpack_schema(std::string_view x) {
  if (!x.starts_with(kind))
    return std::nullopt;
  x.remove_prefix(kind.size());
  auto out = take_number<uint32_t>(x);
  return x.empty() && out > 0u ? out : std::nullopt;
}

std::optional<fact> unpack(std::string_view x) {
  auto table = take_number<uint32_t>(x);
  auto key = take_number<uint32_t>(x);
  auto version = take_number<uint64_t>(x);
  if (!version || *table > x.size() || *key > x.size() - *table)
    return std::nullopt;
  return fact{std::string{x.substr(0, *table)},
              {std::string{x.substr(*table, *key)},
               std::string{x.substr(*table + *key)}, *version}};
}

size_t bytes_of(const std::string& table, const stored_row& x) {
  return journal_overhead + row_overhead + table.size() + x.key.size()
         + x.value.size();
}

} // namespace

size_t bytes_of(const fact& row) {
  return bytes_of(row.table, row.row);
}

uint64_t next_count(std::string_view value, uint64_t least) {
  return std::max(number_in<uint64_t>(value).value_or(0) + 1, least);
}

std::string pack(const fact& row) {
  std::string out;
  put_number(out, static_cast<uint32_t>(row.table.size()));
  put_number(out, static_cast<uint32_t>(row.row.key.size()));
  put_number(out, row.row.version);
  return out + row.table + row.row.key + row.row.value;
}

std::string pack_schema(uint32_t schema) {
  std::string out{kind};
  put_number(out, schema);
  return out;
}

// -- in memory ----------------------------------------------------------------

facts::facts(fact_tables tables) : tables_(std::move(tables)) {
  for (auto& [table, rows] : tables_)
    for (auto& [key, row] : rows)
      bytes_ += bytes_of(table, row);
}

std::vector<stored_row> facts::rows(const std::string& table) const {
  std::vector<stored_row> out;
  if (auto t = tables_.find(table); t != tables_.end())
    for (auto& [key, row] : t->second)
      out.push_back(row);
  return out;
}

const stored_row* facts::find(const std::string& table,
                              const std::string& key) const {
  auto t = tables_.find(table);
  if (t == tables_.end())
    return nullptr;
  auto i = t->second.find(key);
  return i == t->second.end() ? nullptr : &i->second;
}

void facts::apply(fact row) {
  if (auto* old = find(row.table, row.row.key)) {
    bytes_ -= bytes_of(row.table, *old);
    tables_[row.table].erase(row.row.key);
  }
  if (row.row.value.empty())
    return;
  bytes_ += bytes_of(row);
  auto key = row.row.key;
  tables_[row.table].insert_or_assign(std::move(key), std::move(row.row));
}

// -- in a journal -------------------------------------------------------------

result<fact_content> read_facts(std::string_view file,
                                const std::string& path) {
  auto found = read_journal(file);
  auto schema =
    found.records.empty() ? std::nullopt : unpack_schema(found.records.front());
  if (!schema)
    return error{
      ec::bad_config,
      path
        + ": is not a fact journal of Millrace, or its first record is damaged",
      {}};
  fact_content out{*schema, {}, found.end, found.damage};
  for (size_t i = 1; i < found.records.size(); ++i) {
    auto x = unpack(found.records[i]);
    if (!x)
      return error{ec::bad_config,
                   path + ": record " + std::to_string(i) + " is no row",
                   {}};
    out.rows.apply(std::move(*x));
  }
  return out;
}

std::string describe_damage(const fact_content& content) {
  return "bytes " + std::to_string(content.damage->from) + " to "
         + std::to_string(content.damage->to) + " are damaged; the "
         + std::to_string(content.end.records) + " records before are whole";
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/store/journal.hpp"
#include "runtime/store/store.hpp"

namespace millrace {

/// The rows of a table, by key.
using fact_table = std::map<std::string, stored_row>;
using fact_tables = std::map<std::string, fact_table>;

/// A row with its table; an empty value means deleted.
struct fact {
  std::string table;
  stored_row row;
};

/// Durable facts in memory.
class facts {
public:
  facts() = default;
  explicit facts(fact_tables tables);

  const fact_tables& tables() const { return tables_; }

  /// The rows of a table, sorted by key.
  std::vector<stored_row> rows(const std::string& table) const;

  /// Finds a row; null when it does not exist.
  const stored_row* find(const std::string& table,
                         const std::string& key) const;

  void apply(fact row);

  /// Size of the rows' records in a journal.
  size_t bytes() const { return bytes_; }

private:
  fact_tables tables_;
  size_t bytes_ = 0;
};

/// The next value of a counter that is stored as a row: one more than the
/// present value (empty: 0), at least `least`.
uint64_t next_count(std::string_view value, uint64_t least);

/// Encodes a row as the content of a record.
std::string pack(const fact& row);
/// Encodes the first record, which names the schema.
std::string pack_schema(uint32_t schema);

/// Size of a row's record in a journal.
size_t bytes_of(const fact& row);

/// The valid prefix of a fact journal.
struct fact_content {
  uint32_t schema = 0;
  facts rows;
  journal_end end;
  std::optional<journal_damage> damage;
};

/// Decodes a journal; `path` is for errors.
/// Errors: bad_config when the text is no journal or its first record is
/// damaged.
result<fact_content> read_facts(std::string_view file, const std::string& path);

/// "bytes 48 to 112 are damaged; the 3 records before are whole".
std::string describe_damage(const fact_content& content);

} // namespace millrace

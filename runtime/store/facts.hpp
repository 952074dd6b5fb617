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

/// A table's rows by key.
using fact_table = std::map<std::string, stored_row>;
using fact_tables = std::map<std::string, fact_table>;

/// A row and where it belongs; of no value: deleted.
struct fact {
  std::string table;
  stored_row row;
};

/// Durable facts in memory.
class facts {
public:
  facts() = default;
  explicit facts(fact_tables x);

  const fact_tables& tables() const { return tables_; }

  /// A table's rows, by key.
  std::vector<stored_row> rows(const std::string& table) const;

  /// Null when there is none.
  const stored_row* find(const std::string& table,
                         const std::string& key) const;

  void apply(fact x);

  /// What their records take in a journal.
  size_t bytes() const { return bytes_; }

private:
  fact_tables tables_;
  size_t bytes_ = 0;
};

/// What a counter says next after a row's value (of an empty one: 0): one more,
/// or `least`.
uint64_t next_count(std::string_view value, uint64_t least);

/// The content of a row's record.
std::string pack(const fact& x);
/// And of the first record, which says what the others are.
std::string pack_schema(uint32_t schema);

/// What a row's record takes in a journal.
size_t bytes_of(const fact& x);

/// What a journal of facts holds, as far as it is whole.
struct fact_content {
  uint32_t schema = 0;
  facts rows;
  journal_end end;
  std::optional<journal_damage> damage;
};

/// Reads a journal's text; its path is for errors.
/// Errors: bad_config when it is none, or not even its first record is whole.
result<fact_content> read_facts(std::string_view file, const std::string& path);

/// "bytes 48 to 112 are damaged; the 3 records before are whole".
std::string describe_damage(const fact_content& x);

} // namespace millrace

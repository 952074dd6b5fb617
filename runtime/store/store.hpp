// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/store/disk.hpp"

namespace millrace {

/// A durable fact. The version counts its writes from 1.
struct stored_row {
  std::string key;
  std::string value;
  uint64_t version = 0;
};

/// Where the few durable facts of a node are kept: tables of rows, each
/// replaced as a whole by compare-and-set. Calls return at once; completions
/// come later, on a thread of the store, so an actor's completion only sends
/// the actor a message.
class store {
public:
  virtual ~store() = default;

  using loaded = std::function<void(result<std::vector<stored_row>>)>;
  using written = std::function<void(result<uint64_t>)>;

  /// Reads all rows of a table, by key.
  virtual void load(std::string table, loaded done) = 0;

  /// Writes a row and completes with its new version once it is on disk.
  /// An empty value deletes the row. `expected` is the version that is
  /// replaced, 0 for a row that must not exist yet.
  /// Errors: conflict when the version differs; too_large; unavailable when
  /// the disk refuses: then what is there after a restart is open.
  virtual void put(std::string table, std::string key, std::string value,
                   uint64_t expected, written done) = 0;
};

/// The journal's name in a node's data directory.
constexpr auto facts_file = "facts.journal";

/// The table of a node's crashes by model.
constexpr auto crashes_table = "crashes";

/// A node's store: a journal in its data directory (fact_journal.hpp), synced
/// at each write. Begins one where there is none. Errors: those of
/// fact_journal::open.
result<std::unique_ptr<store>> open_store(std::unique_ptr<disk> where);

} // namespace millrace

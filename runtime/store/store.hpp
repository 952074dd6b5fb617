// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/store/disk.hpp"

namespace millrace {

/// A durable row. The version counts its writes, from 1.
struct stored_row {
  std::string key;
  std::string value;
  uint64_t version = 0;
};

/// The durable facts of a node: tables of rows, each replaced as a whole by
/// compare-and-set. Calls return at once. A completion runs later on a thread
/// of the store, so the completion of an actor only sends a message to the
/// actor.
class store {
public:
  virtual ~store() = default;

  using loaded = std::function<void(result<std::vector<stored_row>>)>;
  using written = std::function<void(result<uint64_t>)>;

  /// Reads all rows of a table, sorted by key.
  virtual void load(std::string table, loaded done) = 0;

  /// Writes a row and completes with its new version once the row is on disk.
  /// An empty value deletes the row. `expected` is the version to replace; 0
  /// for a row that must not exist.
  /// Errors: conflict when the version differs; too_large; unavailable when the
  /// disk fails: after a restart the row may be the old or the new one.
  virtual void put(std::string table, std::string key, std::string value,
                   uint64_t expected, written done) = 0;
};

/// The journal's file name in a node's data directory.
constexpr auto facts_file = "facts.journal";

/// The table with a node's crashes by model.
constexpr auto crashes_table = "crashes";

/// Opens a node's store: a journal in its data directory (fact_journal.hpp),
/// synced at each write and created if missing. Errors: those of
/// fact_journal::open.
result<std::unique_ptr<store>> open_store(std::unique_ptr<disk> where);

} // namespace millrace

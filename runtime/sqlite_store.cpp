// SPDX-License-Identifier: Apache-2.0
#include "runtime/store.hpp"

#include <sqlite3.h>

#include "runtime/worker_thread.hpp"

namespace millrace {

namespace {

constexpr int schema_version = 1;

struct close_database {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};

struct finish_statement {
  void operator()(sqlite3_stmt* x) const { sqlite3_finalize(x); }
};

using database = std::unique_ptr<sqlite3, close_database>;
using statement = std::unique_ptr<sqlite3_stmt, finish_statement>;

statement prepare(sqlite3* db, const char* sql) {
  sqlite3_stmt* out = nullptr;
  sqlite3_prepare_v2(db, sql, -1, &out, nullptr);
  return statement{out};
}

void bind(sqlite3_stmt* x, int i, const std::string& text) {
  sqlite3_bind_blob(x, i, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);
}

std::string column(sqlite3_stmt* x, int i) {
  auto* p = static_cast<const char*>(sqlite3_column_blob(x, i));
  auto n = static_cast<size_t>(sqlite3_column_bytes(x, i));
  return p == nullptr ? std::string{} : std::string{p, n};
}

class sqlite_store : public store {
public:
  sqlite_store(database db, std::string path)
    : db_(std::move(db)),
      path_(std::move(path)),
      thread_("store") {}

  void load(std::string table, loaded done) override {
    thread_.post([this, table = std::move(table), done = std::move(done)] {
      done(read(table));
    });
  }

  void put(std::string table, std::string key, std::string value,
           uint64_t expected, written done) override {
    thread_.post([=, this, done = std::move(done)] {
      done(write(table, key, value, expected));
    });
  }

private:
  error failed(const char* what) {
    return {ec::unavailable,
            path_ + ": cannot " + what + ": " + sqlite3_errmsg(db_.get())};
  }

  result<std::vector<stored_row>> read(const std::string& table) {
    auto x = prepare(db_.get(), "select key, value, version from facts"
                                " where tab = ? order by key");
    if (!x)
      return failed("read");
    bind(x.get(), 1, table);
    std::vector<stored_row> rows;
    int state;
    while ((state = sqlite3_step(x.get())) == SQLITE_ROW)
      rows.push_back({column(x.get(), 0), column(x.get(), 1),
                      static_cast<uint64_t>(sqlite3_column_int64(x.get(), 2))});
    if (state != SQLITE_DONE)
      return failed("read");
    return rows;
  }

  /// One statement is one transaction, so the comparison and the write are.
  result<uint64_t> write(const std::string& table, const std::string& key,
                         const std::string& value, uint64_t expected) {
    const char* sql =
      value.empty()   ? "delete from facts"
                        " where tab = ?1 and key = ?2 and version = ?4"
      : expected == 0 ? "insert or ignore into facts (tab, key, value, version)"
                        " values (?1, ?2, ?3, ?4 + 1)"
                      : "update facts set value = ?3, version = ?4 + 1"
                        " where tab = ?1 and key = ?2 and version = ?4";
    auto x = prepare(db_.get(), sql);
    if (!x)
      return failed("write");
    bind(x.get(), 1, table);
    bind(x.get(), 2, key);
    if (!value.empty())
      bind(x.get(), 3, value);
    sqlite3_bind_int64(x.get(), 4, static_cast<int64_t>(expected));
    if (sqlite3_step(x.get()) != SQLITE_DONE)
      return failed("write");
    if (sqlite3_changes(db_.get()) != 1)
      return error{ec::conflict, table + "/" + key + " is not at version "
                                   + std::to_string(expected)};
    return expected + 1;
  }

  database db_;
  std::string path_;
  worker_thread thread_; // last: ends before the database closes
};

} // namespace

result<std::unique_ptr<store>> open_sqlite_store(const std::string& path) {
  sqlite3* raw = nullptr;
  auto state = sqlite3_open(path.c_str(), &raw);
  database db{raw};
  auto run = [&](const char* sql) {
    return sqlite3_exec(raw, sql, nullptr, nullptr, nullptr) == SQLITE_OK;
  };
  auto failed = [&](const char* what) {
    return error{ec::unavailable,
                 path + ": cannot " + what + ": " + sqlite3_errmsg(raw)
                   + " (moved away, a new one is begun; what was registered"
                     " is then lost)"};
  };
  if (state != SQLITE_OK)
    return failed("open");
  // WAL with synchronous=FULL: a commit returns after the log is synced.
  if (!run("pragma journal_mode = wal") || !run("pragma synchronous = full"))
    return failed("set up");
  auto version = prepare(raw, "pragma user_version");
  if (!version || sqlite3_step(version.get()) != SQLITE_ROW)
    return failed("read the schema version of");
  auto found = sqlite3_column_int(version.get(), 0);
  version.reset();
  if (found > schema_version)
    return error{ec::bad_config, path + ": has schema " + std::to_string(found)
                                   + ", this program knows up to "
                                   + std::to_string(schema_version)};
  if (!run("create table if not exists facts (tab blob, key blob, value blob,"
           " version integer, primary key (tab, key)) without rowid")
      || !run("pragma user_version = 1"))
    return failed("create tables in");
  return std::unique_ptr<store>{
    std::make_unique<sqlite_store>(std::move(db), path)};
}

} // namespace millrace

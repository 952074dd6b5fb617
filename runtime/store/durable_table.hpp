// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/store/store.hpp"

namespace millrace {

/// A row to write. An empty value deletes the row.
struct row_write {
  std::string table;
  std::string key;
  std::string value;
};

/// The rows that an actor keeps in a store: writes changes one at a time, in
/// their order, and keeps the version of each row.
///
///     push ──▶ queue ──prepare──▶ store.put ──done──▶ finish ──▶ go_on
///
/// The actor defines a change and how it becomes a row. A change stays at the
/// head of the queue until its write has completed. Not thread-safe: `done`
/// runs on a thread of the store and only sends the actor a message.
template <class Change>
class durable_table {
public:
  /// Returns the row of a change when its turn comes. Nothing: the change is
  /// dropped, after `prepare` has answered it.
  using prepare = std::function<std::optional<row_write>(Change&)>;

  durable_table() = default;

  /// `size_max` bounds the queue: see is_full().
  durable_table(std::shared_ptr<store> facts, size_t size_max, prepare make_row,
                store::written done)
    : facts_(std::move(facts)),
      size_max_(size_max),
      make_row_(std::move(make_row)),
      done_(std::move(done)) {}

  /// Notes the version of a row that was read from the store.
  void on_read(const std::string& table, const stored_row& row) {
    versions_[{table, row.key}] = row.version;
  }

  /// Starts to write. Until then changes are only queued, because the versions
  /// of the rows are unknown.
  void start() {
    started_ = true;
    go_on();
  }
  bool is_started() const { return started_; }

  /// Whether the caller must refuse a change instead of calling push().
  bool is_full() const { return queue_.size() >= size_max_; }

  void push(Change change) {
    queue_.push_back(std::move(change));
    go_on();
  }

  /// Puts a change before all others: another row of the same change.
  void push_front(Change change) { queue_.push_front(std::move(change)); }

  /// Changes that are not durable, the one that is being written first.
  const std::deque<Change>& pending() const { return queue_; }

  /// Ends the current write and returns its change. The caller then calls
  /// go_on().
  Change finish(const result<uint64_t>& version) {
    if (version && writing_->value.empty())
      versions_.erase({writing_->table, writing_->key});
    else if (version)
      versions_[{writing_->table, writing_->key}] = *version;
    writing_.reset();
    auto out = std::move(queue_.front());
    queue_.pop_front();
    return out;
  }

  /// Writes the next change, if there is one and none is being written.
  void go_on() {
    while (started_ && !writing_ && !queue_.empty()) {
      writing_ = make_row_(queue_.front());
      if (!writing_) {
        queue_.pop_front();
        continue;
      }
      auto known = versions_.find({writing_->table, writing_->key});
      facts_->put(writing_->table, writing_->key, writing_->value,
                  known == versions_.end() ? 0 : known->second, done_);
    }
  }

private:
  std::shared_ptr<store> facts_;
  size_t size_max_ = 0;
  prepare make_row_;
  store::written done_;
  bool started_ = false;
  std::deque<Change> queue_;
  std::optional<row_write> writing_; ///< row of the first change
  std::map<std::pair<std::string, std::string>, uint64_t> versions_;
};

} // namespace millrace

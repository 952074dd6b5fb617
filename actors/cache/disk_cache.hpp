// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "actors/cache/cache_book.hpp"
#include "transport/messages/model.hpp"

namespace millrace {

/// A bundle that is kept on the disk.
struct disk_bundle {
  model_info info;
  microseconds idle{0}; ///< since it was used last
  MILLRACE_FIELDS(disk_bundle, info, idle)
};

/// Which bundles that came from other hosts this one's disk has, and what makes
/// room for another. Whoever asks does what it says.
class disk_cache {
public:
  /// Of so many bytes.
  disk_cache(uint64_t capacity, eviction by, cache_book::clock now)
    : book_(capacity, by, std::move(now)) {}

  /// What was there before. Returns what of it has no room.
  std::vector<std::string> adopt(const std::vector<disk_bundle>& xs);

  /// Whether it may be there: before what was there is known, anything may.
  bool may_have(const std::string& content) const {
    return !adopted_ || has(content);
  }
  bool has(const std::string& content) const { return kept_.contains(content); }
  /// Null: not there.
  const model_info* find(const std::string& content) const {
    auto i = kept_.find(content);
    return i == kept_.end() ? nullptr : &i->second;
  }

  /// One is to be written. Returns what has to go for it.
  /// Errors: conflict when it is there, or is being written; overloaded.
  result<std::vector<std::string>> begin(const model_info& x);

  /// It is written, or could not be.
  void end(const std::string& content, bool written);

  void drop(const std::string& content);

  /// What is there, by content.
  const std::map<std::string, model_info>& all() const { return kept_; }

  /// Who uses what.
  cache_book& book() { return book_; }
  const cache_book& book() const { return book_; }

private:
  struct writing {
    model_info info;
    cache_book::lease room;
  };

  cache_book book_; ///< of those that are there, or are being written
  std::map<std::string, writing> writing_;
  std::map<std::string, model_info> kept_;
  bool adopted_ = false;
};

} // namespace millrace

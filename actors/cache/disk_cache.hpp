// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "actors/cache/cache_book.hpp"
#include "transport/messages/model.hpp"

namespace millrace {

/// The list of bundles in the disk cache, and the eviction decision for a new
/// bundle. Pure: the caller writes and deletes the files.
class disk_cache {
public:
  /// `capacity` is in bytes; 0: unlimited.
  disk_cache(uint64_t capacity, eviction by, cache_book::clock now)
    : book_(capacity, by, std::move(now)) {}

  /// Adds the bundles found at the start. Returns the contents that have no
  /// room.
  std::vector<std::string> adopt(const std::vector<disk_bundle>& xs);

  /// Whether the disk cache may hold a content: true for any content before
  /// adopt().
  bool may_have(const std::string& content) const {
    return !adopted_ || has(content);
  }
  bool has(const std::string& content) const { return kept_.contains(content); }
  /// Null: not in the disk cache.
  const model_info* find(const std::string& content) const {
    auto i = kept_.find(content);
    return i == kept_.end() ? nullptr : &i->second;
  }

  /// Reserves room for a bundle to be written. Returns the contents to evict.
  /// Errors: conflict when the bundle is present or is being written;
  /// overloaded.
  result<std::vector<std::string>> begin(const model_info& model);

  /// Ends a write that begin() started: the bundle is present, or the write
  /// failed.
  void end(const std::string& content, bool written);

  void drop(const std::string& content);

  /// The written bundles, by content.
  const std::map<std::string, model_info>& all() const { return kept_; }

  /// Room and leases of the contents.
  cache_book& book() { return book_; }
  const cache_book& book() const { return book_; }

private:
  struct writing {
    model_info info;
    cache_book::lease room;
  };

  cache_book book_; ///< written bundles, and those being written
  std::map<std::string, writing> writing_;
  std::map<std::string, model_info> kept_;
  bool adopted_ = false;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/policies/evict/eviction.hpp"
#include "runtime/error.hpp"
#include "runtime/time.hpp"
#include "transport/messages/cluster.hpp"

namespace millrace {

/// Estimated seconds to fetch a content again when only the size is known: the
/// search for a source, then a transfer over a gigabit link.
constexpr double seconds_to_get(uint64_t bytes) {
  return 0.01 + static_cast<double>(bytes) / 1.25e8;
}

/// Estimated seconds to read a content from the disk of this host.
constexpr double seconds_to_read(uint64_t bytes) {
  return 0.01 + static_cast<double>(bytes) / 5e8;
}

/// The contents of one tier of a host's cache, in bytes. Room is reserved
/// before a transfer starts, so that a transfer never runs out of room
/// (Flashpoint, section 5.2.1). A content in use is never evicted.
class cache_book {
  struct entry;

public:
  using clock = std::function<timestamp()>;

  /// `capacity` is in bytes; 0: unlimited.
  cache_book(uint64_t capacity, eviction by, clock now)
    : capacity_(capacity),
      by_(by),
      now_(std::move(now)) {}

  /// Inputs of the eviction policy for one content.
  struct worth {
    uint64_t bytes = 0;
    double seconds = 0; ///< to fetch or read the content again
    /// No other host has the content: it is never evicted.
    bool last_copy = false;
  };

  /// Keeps a content in use while the lease lives. A lease of a content that
  /// was dropped does not apply to a later copy of the same content.
  class lease {
  public:
    lease(lease&&) = default;
    lease& operator=(lease&& other) noexcept;
    ~lease();
    const std::string& content() const { return content_; }

  private:
    friend cache_book;
    lease(std::string content, std::shared_ptr<entry> of, clock now);

    std::string content_;
    std::shared_ptr<entry> of_;
    clock now_;
  };

  struct taken {
    lease in_use;
    std::vector<std::string> gone; ///< contents to evict
  };

  /// Reserves room for a content, or takes a lease when the content has room.
  /// Errors: overloaded when too few bytes can be evicted; then nothing is
  /// evicted.
  result<taken> take(const std::string& content, const worth& value);

  /// Takes a lease of a content; nothing when the tier lacks the content.
  std::optional<lease> use(const std::string& content);

  /// Adds a content that is already present, last used `idle` ago. The content
  /// counts even if that exceeds the capacity.
  void adopt(const std::string& content, const worth& value,
             nanoseconds idle = nanoseconds{0});

  /// Raises the room of a content to `bytes`, never lowers it. Returns the
  /// contents to evict. Errors: as take().
  result<std::vector<std::string>> grow(const std::string& content,
                                        uint64_t bytes);

  /// Marks exactly these contents as last copies.
  void keep_last(const std::set<std::string>& contents);

  /// Removes a content.
  void drop(const std::string& content);

  /// Returns the contents to evict until the tier holds at most `bytes`, or all
  /// that can be evicted.
  std::vector<std::string> shrink_to(uint64_t bytes);

  /// Changes the capacity, in bytes; evicts nothing.
  void limit_to(uint64_t capacity) { capacity_ = capacity; }

  /// Whether `bytes` more fit without eviction.
  bool fits(uint64_t bytes) const {
    return capacity_ == 0 || held_ + bytes <= capacity_;
  }

  bool has(const std::string& content) const {
    return entries_.contains(content);
  }
  uint64_t users_of(const std::string& content) const;
  bool is_last(const std::string& content) const;
  std::vector<held_bundle> list() const;
  uint64_t held() const { return held_; }
  uint64_t capacity() const { return capacity_; }

private:
  struct entry {
    worth is;
    timestamp used;
    uint64_t users = 0;
    bool may_go() const { return users == 0 && !is.last_copy; }
  };

  std::vector<std::string> choose(uint64_t bytes) const;
  result<std::vector<std::string>> make_room(uint64_t bytes);

  uint64_t capacity_;
  eviction by_;
  clock now_;
  std::map<std::string, std::shared_ptr<entry>> entries_;
  uint64_t held_ = 0;
};

} // namespace millrace

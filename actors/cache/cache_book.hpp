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

/// What it takes to get something again of which nothing is known but its size:
/// over a gigabit link, and to find somebody who has it.
constexpr double seconds_to_get(uint64_t bytes) {
  return 0.01 + static_cast<double>(bytes) / 1.25e8;
}

/// The same of what is on this host's disk.
constexpr double seconds_to_read(uint64_t bytes) {
  return 0.01 + static_cast<double>(bytes) / 5e8;
}

/// What one tier of a host's cache keeps, in bytes. Room is taken before the
/// bytes come, so that they cannot fail to find it half-way (Flashpoint,
/// section 5.2.1); what is in use stays.
class cache_book {
  struct entry;

public:
  using clock = std::function<timestamp()>;

  /// Of so many bytes; 0: as many as come.
  cache_book(uint64_t capacity, eviction by, clock now)
    : capacity_(capacity),
      by_(by),
      now_(std::move(now)) {}

  /// What is known of a content.
  struct worth {
    uint64_t bytes = 0;
    double seconds = 0; ///< that it takes to get it again
    /// Nobody else has it, and nobody could give it again: it stays.
    bool last_copy = false;
  };

  /// A content is in use for as long as this lives. Of one that was dropped
  /// meanwhile it says nothing any more, even if that has come again.
  class lease {
  public:
    lease(lease&&) = default;
    lease& operator=(lease&& x) noexcept;
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
    std::vector<std::string> gone; ///< what has to go for it
  };

  /// Takes room for a content; what has room already is in use once more.
  /// Errors: overloaded, when what may go is not enough: then nothing does.
  result<taken> take(const std::string& content, const worth& x);

  /// What is there is in use once more; nothing: it is not.
  std::optional<lease> use(const std::string& content);

  /// A content is there already, and was used last so long ago: it has its
  /// room, even if that is more than there is.
  void adopt(const std::string& content, const worth& x,
             nanoseconds idle = nanoseconds{0});

  /// Has a content that is there take so many bytes, if those are more. Returns
  /// what has to go for it. Errors: as take's.
  result<std::vector<std::string>> grow(const std::string& content,
                                        uint64_t bytes);

  /// Of what it has, the last copies are these.
  void keep_last(const std::set<std::string>& contents);

  /// It is not there any more.
  void drop(const std::string& content);

  /// What has to go for the tier to be within so many bytes, or all that may.
  std::vector<std::string> shrink_to(uint64_t bytes);

  /// From now on.
  void limit_to(uint64_t capacity) { capacity_ = capacity; }

  /// Whether there is room for so many bytes more.
  bool fits(uint64_t bytes) const {
    return capacity_ == 0 || held_ + bytes <= capacity_;
  }

  bool has(const std::string& content) const {
    return entries_.contains(content);
  }
  uint64_t users_of(const std::string& content) const;
  bool is_last(const std::string& content) const;
  /// All that it has.
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

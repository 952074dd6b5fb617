// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <vector>

#include "runtime/time.hpp"
#include "transport/messages/inside.hpp"

namespace millrace {

/// The requests that somebody may ask about later: the last that failed or
/// were run again, the last that a client had named, and the slowest of this
/// minute and the one before. So many of each at most.
class notable_requests {
public:
  static constexpr size_t troubled_most = 64;
  static constexpr size_t named_most = 64;
  static constexpr size_t slow_most = 16; ///< of each minute
  static constexpr microseconds window = 60s;

  /// Whether a request that was answered well, at the first attempt, and has no
  /// name is slow enough; all others are notable.
  bool is_slow(microseconds total, timestamp now);

  /// Keeps one; `arrived` is when it did. Of slow ones the quickest goes.
  void keep(request_story x, timestamp arrived, timestamp now);

  /// One of those that failed, or have a name; null when it is not kept.
  request_story* find(uint64_t number);

  /// All that are kept, or those of that name or number; the newest first.
  std::vector<request_story> find(const std::string& which,
                                  timestamp now) const;

private:
  struct entry {
    timestamp arrived;
    request_story story;
  };

  void turn(timestamp now);

  std::deque<entry> troubled_, named_;
  std::vector<entry> slow_, slow_before_;
  timestamp turned_;
};

/// Whether a request of that name and number is meant.
bool is_meant(const std::string& which, const std::string& trace,
              uint64_t number);

} // namespace millrace

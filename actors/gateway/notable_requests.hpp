// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <vector>

#include "runtime/time.hpp"
#include "transport/messages/inside.hpp"

namespace millrace {

/// Requests kept for operators, each kind with a limit: the latest failed or
/// retried ones, the latest traced ones, and the slowest of this minute and the
/// one before.
class notable_requests {
public:
  static constexpr size_t troubled_most = 64;
  static constexpr size_t named_most = 64;
  static constexpr size_t slow_most = 16; ///< per minute
  static constexpr microseconds window = 60s;

  /// Whether a request that succeeded at the first attempt, without a trace id,
  /// is slow enough to keep. All other requests are notable.
  bool is_slow(microseconds total, timestamp now);

  /// Keeps a request. Above the limit the oldest is removed; of slow requests
  /// the fastest.
  void keep(request_story story, timestamp arrived, timestamp now);

  /// A failed or traced request; null: not kept.
  request_story* find(uint64_t number);

  /// Requests with this trace id or number, the newest first; `which` empty:
  /// all.
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

/// Whether `which` is the trace id or the number of a request.
bool is_meant(const std::string& which, const std::string& trace,
              uint64_t number);

} // namespace millrace

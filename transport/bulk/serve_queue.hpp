// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Problem: more hosts request chunks than one host can send at once, and some
/// requested chunks have not arrived here yet.
///
/// Approach: a queue ordered by rank, then by arrival, with limits per link and
/// on the rate. A request for a missing chunk waits outside of the queue and
/// keeps its place.
///
/// Callers: bulk_engine, on its thread. Pure: time is a parameter.
///
/// States of a request:
///
///     held ──there──▶ ready ──next──▶ on its way ──left──▶ done
///       └───────────────┴── withdraw, forget: dropped

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/time.hpp"
#include "transport/messages/bulk.hpp"

namespace millrace {

/// Decides which requested chunk is sent next, and to which link.
class serve_queue {
public:
  struct limits {
    size_t each = 64;      ///< requested chunks of one link, not sent yet
    size_t at_once = 2;    ///< chunks on their way to one link
    double per_second = 0; ///< bytes to all links; 0: no limit
  };

  explicit serve_queue(limits bounds) : limits_(bounds) {}

  struct chunk_id {
    std::string content;
    size_t chunk = 0;
    friend auto operator<=>(const chunk_id&, const chunk_id&) = default;
  };

  struct gift {
    std::string link;
    chunk_id what;
    friend bool operator==(const gift&, const gift&) = default;
  };

  /// Adds a request of a link. `there`: the chunk is present; else it will
  /// arrive. Returns false, and drops the request, if the link exceeds its
  /// limit.
  bool ask(const std::string& link, chunk_id chunk, transfer_rank rank,
           bool there);

  /// The chunk has arrived.
  void there(const chunk_id& chunk);

  /// The content is no longer served; returns the links with open requests.
  std::set<std::string> withdraw(const std::string& content);

  /// The connection of the link has ended.
  void forget(const std::string& link);

  /// The chunk to send now. It counts as on its way, and its bytes as sent.
  std::optional<gift> next(timestamp now, uint64_t bytes_each);

  /// Limit of requested chunks per link.
  size_t most_owed() const { return limits_.each; }

  /// A chunk to the link has been sent.
  void left(const std::string& link);

  /// When next() may return a chunk again, if the rate limits it.
  timestamp next_due() const { return limited_until_; }

private:
  struct place {
    transfer_rank rank;
    uint64_t number; ///< arrival order
    friend auto operator<=>(const place&, const place&) = default;
  };
  struct link_state {
    size_t owed = 0;
    size_t on_its_way = 0;
  };

  limits limits_;
  uint64_t last_ = 0;
  std::map<place, gift> ready_;
  std::map<chunk_id, std::vector<std::pair<place, std::string>>> held_;
  std::map<std::string, link_state> links_;
  timestamp limited_until_ = far_future;
  timestamp paid_at_{}; ///< when the bytes sent so far are paid for at the rate
};

} // namespace millrace

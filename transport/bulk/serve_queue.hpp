// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/time.hpp"
#include "transport/messages/bulk.hpp"

namespace millrace {

/// Who of those that ask this host for chunks gets which next. What it does not
/// have yet, and will, is given when it comes.
class serve_queue {
public:
  struct limits {
    size_t each = 64;      ///< chunks that one link may be owed
    size_t at_once = 2;    ///< chunks on their way to one link
    double per_second = 0; ///< bytes to all; 0: as many as there are
  };

  explicit serve_queue(limits x) : limits_(x) {}

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

  /// A link asks for a chunk, which is there, or will be. False when it asks
  /// for too much at once: it gets nothing for it.
  bool ask(const std::string& link, chunk_id x, transfer_rank rank, bool there);

  /// It has come.
  void there(const chunk_id& x);

  /// The host gives no more of it; returns who had asked for some.
  std::set<std::string> withdraw(const std::string& content);

  /// Whose connection has ended.
  void forget(const std::string& link);

  /// What to send now; it counts as on its way, and its bytes as sent.
  std::optional<gift> next(timestamp now, uint64_t bytes_each);

  /// Chunks that one link may be owed.
  size_t most_owed() const { return limits_.each; }

  /// It has left.
  void left(const std::string& link);

  /// When next() has something again, if the rate is what it waits for.
  timestamp next_due() const { return limited_until_; }

private:
  struct place {
    transfer_rank rank;
    uint64_t number; ///< first come, first served
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
  timestamp paid_at_{}; ///< when what was sent so far was due at the rate
};

} // namespace millrace

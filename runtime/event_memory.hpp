// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "runtime/log.hpp"

namespace millrace {

/// A log event, kept for later queries.
struct kept_event {
  std::string when; ///< UTC wall-clock time, in milliseconds
  log_level level = log_level::info;
  std::string text; ///< "COMPONENT.EVENT key=value ..."
  MILLRACE_FIELDS(kept_event, when, level, text)
};

/// Convert an event to a line "WHEN LEVEL TEXT" and back. A line in another
/// format becomes an event without a time.
std::string to_line(const kept_event& event);
kept_event to_event(const std::string& line);

/// The last 1,000 events of this process at level info or above, independent of
/// the log level. Thread-safe.
class event_memory {
public:
  using keeper = std::function<void(const kept_event&)>;

  void add(kept_event event);

  /// The last `most` events, oldest first.
  std::vector<kept_event> last(size_t most) const;

  /// Inserts events of an earlier run before the present ones, and sets a
  /// function that stores each new event (empty: none).
  void go_on_after(std::vector<kept_event> earlier, keeper next);

private:
  static constexpr size_t most_ = 1000;

  mutable std::mutex mutex_;
  std::deque<kept_event> events_;
  keeper keeper_;
};

/// The events recorded by log_event().
event_memory& remembered_events();

} // namespace millrace

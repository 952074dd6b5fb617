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

/// An event of the log, kept for who asks later.
struct kept_event {
  std::string when; ///< wall clock: UTC, to the millisecond
  log_level level = log_level::info;
  std::string text; ///< "COMPONENT.EVENT key=value ..."
  MILLRACE_FIELDS(kept_event, when, level, text)
};

/// The text form, a line: "WHEN LEVEL TEXT"; and back. What is no such line
/// becomes an event without a time.
std::string to_line(const kept_event& x);
kept_event to_event(const std::string& line);

/// The last thousand events of this process from info up, whatever the log
/// prints. Any thread.
class event_memory {
public:
  using keeper = std::function<void(const kept_event&)>;

  void add(kept_event x);

  /// The last so many, the oldest first.
  std::vector<kept_event> last(size_t most) const;

  /// Puts events of an earlier life before what is there, and has somebody else
  /// keep what comes (nobody: an empty function).
  void go_on_after(std::vector<kept_event> earlier, keeper next);

private:
  static constexpr size_t most_ = 1000;

  mutable std::mutex mutex_;
  std::deque<kept_event> events_;
  keeper keeper_;
};

/// What log_event() remembers.
event_memory& remembered_events();

} // namespace millrace

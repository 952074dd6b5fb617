// SPDX-License-Identifier: Apache-2.0
#include "runtime/event_memory.hpp"

#include <algorithm>

namespace millrace {

std::string to_line(const kept_event& event) {
  return event.when + " " + std::string{to_string(event.level)} + " "
         + event.text;
}

kept_event to_event(const std::string& line) {
  auto first = line.find(' ');
  auto second = first == std::string::npos ? first : line.find(' ', first + 1);
  if (second == std::string::npos)
    return {"", log_level::info, line};
  auto level = from_string<log_level>(
    std::string_view{line}.substr(first + 1, second - first - 1));
  if (!level)
    return {"", log_level::info, line};
  return {line.substr(0, first), *level, line.substr(second + 1)};
}

void event_memory::add(kept_event event) {
  keeper next;
  {
    std::lock_guard guard{mutex_};
    events_.push_back(event);
    if (events_.size() > most_)
      events_.pop_front();
    next = keeper_;
  }
  if (next) // outside the lock: the keeper may log as well
    next(event);
}

std::vector<kept_event> event_memory::last(size_t most) const {
  std::lock_guard guard{mutex_};
  auto n = std::min(most, events_.size());
  return {events_.end() - static_cast<std::ptrdiff_t>(n), events_.end()};
}

void event_memory::go_on_after(std::vector<kept_event> earlier, keeper next) {
  std::lock_guard guard{mutex_};
  keeper_ = std::move(next);
  events_.insert(events_.begin(), std::make_move_iterator(earlier.begin()),
                 std::make_move_iterator(earlier.end()));
  while (events_.size() > most_)
    events_.pop_front();
}

event_memory& remembered_events() {
  static event_memory out;
  return out;
}

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace millrace {

/// What waits for a device: in order of priority, then of arrival. The device
/// has at most `depth` batches at a time, so that a later one of a higher
/// priority has not long to wait. Pure.
class run_queue {
public:
  explicit run_queue(size_t depth) : depth_(depth) {}

  void push(uint64_t id, int32_t priority) {
    waiting_.emplace(std::pair{-int64_t{priority}, next_++}, id);
  }

  /// The next batch for the device, if it takes another.
  std::optional<uint64_t> next() {
    if (waiting_.empty() || held_ == depth_)
      return std::nullopt;
    ++held_;
    return waiting_.extract(waiting_.begin()).mapped();
  }

  void ended() { --held_; }

  size_t waiting() const { return waiting_.size(); }

private:
  std::map<std::pair<int64_t, uint64_t>, uint64_t> waiting_;
  size_t held_ = 0;
  size_t depth_;
  uint64_t next_ = 0;
};

} // namespace millrace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "runtime/time.hpp"

namespace millrace {

/// Which batch runs on which lane of a device. Work waits in order of priority,
/// then of arrival; a lane holds at most `depth` batches at a time. Pure.
class lane_table {
public:
  lane_table(uint32_t lanes, uint32_t depth) : held_(lanes, 0), depth_(depth) {}

  void push(uint64_t id, int32_t priority) {
    waiting_.emplace(std::pair{-priority, next_++}, id);
  }

  struct start {
    uint64_t id;
    uint32_t lane;
  };

  /// The next batch for the emptiest lane, if both are there.
  std::optional<start> next() {
    if (waiting_.empty())
      return std::nullopt;
    uint32_t best = 0;
    for (uint32_t i = 1; i < held_.size(); ++i)
      if (held_[i] < held_[best])
        best = i;
    if (held_[best] >= depth_)
      return std::nullopt;
    ++held_[best];
    auto id = waiting_.begin()->second;
    waiting_.erase(waiting_.begin());
    return start{id, best};
  }

  void ended(uint32_t lane) { --held_[lane]; }

  size_t waiting() const { return waiting_.size(); }

private:
  std::map<std::pair<int32_t, uint64_t>, uint64_t> waiting_;
  std::vector<uint32_t> held_;
  uint32_t depth_;
  uint64_t next_ = 0;
};

} // namespace millrace

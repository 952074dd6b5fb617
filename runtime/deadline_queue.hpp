// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/time.hpp"

namespace millrace {

/// Deadlines of things that mostly end before them. Ends are not looked up:
/// whoever takes what is due skips what has ended, and what has ended is swept
/// out when it outnumbers the rest.
template <class Key>
class deadline_queue {
public:
  void push(timestamp due, Key key) {
    if (due == far_future)
      return;
    heap_.push_back({due, key});
    std::push_heap(heap_.begin(), heap_.end());
  }

  /// When the next one is due, ended or not; far_future when there is none.
  timestamp next_due() const {
    return heap_.empty() ? far_future : heap_.front().due;
  }

  /// Calls f(key) for everything due by now.
  template <class F>
  void take_due(timestamp now, F f) {
    while (!heap_.empty() && heap_.front().due <= now) {
      auto key = heap_.front().key;
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
      f(key);
    }
  }

  /// Sweeps when far more are held than live; is_live(key) tells which stay.
  template <class F>
  void sweep(size_t live, F is_live) {
    if (heap_.size() < 2 * live + 1024)
      return;
    std::erase_if(heap_, [&](auto& x) { return !is_live(x.key); });
    std::make_heap(heap_.begin(), heap_.end());
  }

  size_t size() const { return heap_.size(); }

private:
  struct entry {
    timestamp due;
    Key key;
    bool operator<(const entry& x) const { return due > x.due; }
  };
  std::vector<entry> heap_;
};

} // namespace millrace

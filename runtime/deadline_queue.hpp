// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/time.hpp"

namespace millrace {

/// A heap of deadlines for entries that mostly end before their deadline. An
/// entry that ends stays in the heap: the caller skips it in take_due, or sweep
/// removes it when ended entries outnumber the live ones.
template <class Key>
class deadline_queue {
public:
  void push(timestamp due, Key key) {
    if (due == far_future)
      return;
    heap_.push_back({due, key});
    std::push_heap(heap_.begin(), heap_.end());
  }

  /// The earliest deadline, also of ended entries; far_future when the queue is
  /// empty.
  timestamp next_due() const {
    return heap_.empty() ? far_future : heap_.front().due;
  }

  /// Removes each entry that is due by `now` and calls f(key).
  template <class F>
  void take_due(timestamp now, F f) {
    while (!heap_.empty() && heap_.front().due <= now) {
      auto key = heap_.front().key;
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
      f(key);
    }
  }

  /// Removes the entries with is_live(key) false if the queue has far more than
  /// `live` entries.
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
    bool operator<(const entry& other) const { return due > other.due; }
  };
  std::vector<entry> heap_;
};

} // namespace millrace

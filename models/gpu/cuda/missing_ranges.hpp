// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace millrace::cuda {

/// Ranges of bytes that have not arrived yet. One thread brings them, others
/// wait for the ranges that they need.
class missing_ranges {
public:
  using range = std::pair<size_t, size_t>; ///< begin, end

  /// Adds a range that overlaps no other.
  void add(size_t begin, size_t end) {
    std::lock_guard guard{mutex_};
    if (begin < end)
      all_[begin] = end;
  }

  /// The missing parts of [begin, end), in order.
  std::vector<range> within(size_t begin, size_t end) const {
    std::lock_guard guard{mutex_};
    std::vector<range> out;
    for (auto i = first_behind(begin); i != all_.end() && i->first < end; ++i)
      out.emplace_back(std::max(i->first, begin), std::min(i->second, end));
    return out;
  }

  /// Marks [begin, end) as present.
  void remove(size_t begin, size_t end) {
    {
      std::lock_guard guard{mutex_};
      split_at(begin); // out of memory, all ranges stay missing
      split_at(end);
      all_.erase(all_.lower_bound(begin), all_.lower_bound(end));
    }
    changed_.notify_all();
  }

  /// Waits until nothing of [begin, end) is missing; false: it never arrives.
  bool wait(size_t begin, size_t end) const {
    std::unique_lock guard{mutex_};
    auto are_there = [&] {
      auto i = first_behind(begin);
      return begin >= end || i == all_.end() || i->first >= end;
    };
    changed_.wait(guard, [&] { return given_up_ || are_there(); });
    return are_there();
  }

  /// The missing ranges will never arrive.
  void give_up() {
    {
      std::lock_guard guard{mutex_};
      given_up_ = true;
    }
    changed_.notify_all();
  }

private:
  using ends_by_begin = std::map<size_t, size_t>;

  /// The first range that ends after x.
  ends_by_begin::const_iterator first_behind(size_t position) const {
    auto i = all_.upper_bound(position);
    return i != all_.begin() && std::prev(i)->second > position ? std::prev(i)
                                                                : i;
  }

  /// Splits the range that contains position at position.
  void split_at(size_t position) {
    auto behind = all_.lower_bound(position);
    if (behind == all_.begin())
      return;
    auto across = std::prev(behind);
    if (across->second > position) {
      all_.emplace_hint(behind, position, across->second);
      across->second = position;
    }
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  ends_by_begin all_;     ///< guarded
  bool given_up_ = false; ///< guarded
};

} // namespace millrace::cuda

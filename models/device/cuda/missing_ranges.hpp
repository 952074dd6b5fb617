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

/// Ranges of bytes that are still to come. One thread brings them, others wait
/// for those that they need.
class missing_ranges {
public:
  using range = std::pair<size_t, size_t>; ///< from where to where

  /// One that has nothing in common with the others.
  void add(size_t begin, size_t end) {
    std::lock_guard guard{mutex_};
    if (begin < end)
      all_[begin] = end;
  }

  /// What of [begin, end) is missing, in order.
  std::vector<range> within(size_t begin, size_t end) const {
    std::lock_guard guard{mutex_};
    std::vector<range> out;
    for (auto i = first_behind(begin); i != all_.end() && i->first < end; ++i)
      out.emplace_back(std::max(i->first, begin), std::min(i->second, end));
    return out;
  }

  /// These are missing no more.
  void remove(size_t begin, size_t end) {
    {
      std::lock_guard guard{mutex_};
      split_at(begin); // where there is no memory for that, all are missing
      split_at(end);
      all_.erase(all_.lower_bound(begin), all_.lower_bound(end));
    }
    changed_.notify_all();
  }

  /// Until nothing of [begin, end) is missing; false: it will not come.
  bool wait(size_t begin, size_t end) const {
    std::unique_lock guard{mutex_};
    auto are_there = [&] {
      auto i = first_behind(begin);
      return begin >= end || i == all_.end() || i->first >= end;
    };
    changed_.wait(guard, [&] { return given_up_ || are_there(); });
    return are_there();
  }

  /// Nothing more of it will come.
  void give_up() {
    {
      std::lock_guard guard{mutex_};
      given_up_ = true;
    }
    changed_.notify_all();
  }

private:
  using ends_by_begin = std::map<size_t, size_t>;

  /// The first that ends behind x.
  ends_by_begin::const_iterator first_behind(size_t x) const {
    auto i = all_.upper_bound(x);
    return i != all_.begin() && std::prev(i)->second > x ? std::prev(i) : i;
  }

  /// So that none reaches across x.
  void split_at(size_t x) {
    auto behind = all_.lower_bound(x);
    if (behind == all_.begin())
      return;
    auto across = std::prev(behind);
    if (across->second > x) {
      all_.emplace_hint(behind, x, across->second);
      across->second = x;
    }
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  ends_by_begin all_;     ///< guarded
  bool given_up_ = false; ///< guarded
};

} // namespace millrace::cuda

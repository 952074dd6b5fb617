// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>

namespace millrace::cuda {

/// Ranges of bytes that are still to be dealt with.
class missing_ranges {
public:
  void add(size_t begin, size_t end) {
    if (begin < end)
      all_[begin] = end;
  }

  /// Deals so with those that lie in [begin, end), in order, each from where to
  /// where: then it is missing no more. Where that throws, it and those behind
  /// it are still.
  template <class F>
  void deal_with(size_t begin, size_t end, F how) {
    auto i = all_.upper_bound(begin);
    if (i != all_.begin())
      --i;
    while (i != all_.end() && i->first < end) {
      auto [first, last] = *i;
      auto from = std::max(first, begin), to = std::min(last, end);
      if (from >= to) { // it ends before
        ++i;
        continue;
      }
      how(from, to);
      i = all_.erase(i);
      add(first, from);
      if (to < last)
        i = std::next(all_.emplace(to, last).first);
    }
  }

private:
  std::map<size_t, size_t> all_; ///< ends by beginnings; apart from each other
};

} // namespace millrace::cuda

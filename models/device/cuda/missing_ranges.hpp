// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace millrace::cuda {

/// Ranges of bytes that are still to be dealt with.
class missing_ranges {
public:
  void add(size_t begin, size_t end) {
    if (begin < end)
      all_[begin] = end;
  }

  /// Deals so with those that lie in [begin, end), in order, each from where to
  /// where: they are missing no more. Where that throws, what is left stays so.
  template <class F>
  void deal_with(size_t begin, size_t end, F how) {
    auto all = take(begin, end);
    for (auto i = all.begin(); i != all.end(); ++i)
      try {
        how(i->first, i->second);
      } catch (...) {
        for (; i != all.end(); ++i)
          add(i->first, i->second);
        throw;
      }
  }

  /// Those that lie in [begin, end), in order: they are missing no more.
  std::vector<std::pair<size_t, size_t>> take(size_t begin, size_t end) {
    std::vector<std::pair<size_t, size_t>> out;
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
      out.emplace_back(from, to);
      i = all_.erase(i);
      add(first, from);
      if (to < last)
        i = std::next(all_.emplace(to, last).first);
    }
    return out;
  }

private:
  std::map<size_t, size_t> all_; ///< ends by beginnings; apart from each other
};

} // namespace millrace::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace millrace::cuda {

/// The page-locked memory ranges of other owners. CUDA has this information
/// too, but each query takes a microsecond. Any thread.
class pinned_ranges {
public:
  void add(const void* begin, size_t bytes) {
    std::lock_guard guard{mutex_};
    ranges_[static_cast<const char*>(begin)] = bytes;
  }

  /// Returns whether the range existed.
  bool remove(const void* begin) {
    std::lock_guard guard{mutex_};
    return ranges_.erase(static_cast<const char*>(begin)) != 0;
  }

  /// Whether all of these bytes are page-locked.
  bool have(const void* begin, size_t bytes) const {
    auto* at = static_cast<const char*>(begin);
    std::lock_guard guard{mutex_};
    auto i = ranges_.upper_bound(at);
    if (i == ranges_.begin())
      return false;
    --i;
    auto before = static_cast<size_t>(at - i->first);
    return before <= i->second && bytes <= i->second - before;
  }

private:
  mutable std::mutex mutex_;
  std::map<const char*, size_t> ranges_; ///< guarded
};

} // namespace millrace::cuda

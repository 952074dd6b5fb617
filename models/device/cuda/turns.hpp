// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace millrace::cuda {

/// A lock that is had in the order in which it was asked for: what is given to
/// a stream by several threads stays in the order of their batches.
class turns {
public:
  void lock() {
    std::unique_lock guard{mutex_};
    auto mine = next_++;
    changed_.wait(guard, [&] { return now_ == mine; });
  }

  void unlock() {
    {
      std::lock_guard guard{mutex_};
      ++now_;
    }
    changed_.notify_all();
  }

  /// How often somebody has asked for it.
  uint64_t asked() const {
    std::lock_guard guard{mutex_};
    return next_;
  }

private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0; ///< guarded, as now_
  uint64_t now_ = 0;
};

} // namespace millrace::cuda

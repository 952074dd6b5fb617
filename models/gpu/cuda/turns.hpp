// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace millrace::cuda {

/// A mutex granted in FIFO order (ticket lock), so that the work of several
/// threads on a stream stays in the order of their batches.
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

  /// Number of lock() calls so far.
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

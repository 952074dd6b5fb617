// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "runtime/bytes.hpp"
#include "runtime/error.hpp"
#include "runtime/time.hpp"

namespace millrace::confined {

/// Passes the weights of a stage that are still arriving from the threads that
/// bring them to the thread that waits.
class arrival {
public:
  /// This part has arrived.
  void add(const_bytes part) {
    {
      std::lock_guard guard{mutex_};
      parts_.push_back(part);
    }
    changed_.notify_all();
  }

  /// All parts have arrived, or never will. The first call counts.
  void end(result<void> how) {
    {
      std::lock_guard guard{mutex_};
      if (!how_)
        how_ = std::move(how);
    }
    changed_.notify_all();
  }

  /// Waits until `until` for the next part; nothing at the end or the timeout.
  std::optional<const_bytes> next(timestamp until) {
    std::unique_lock guard{mutex_};
    changed_.wait_until(guard, until, [&] { return how_ || !parts_.empty(); });
    if (how_ || parts_.empty())
      return std::nullopt;
    auto out = parts_.front();
    parts_.pop_front();
    return out;
  }

  /// The argument of end(); nothing before.
  std::optional<result<void>> how() const {
    std::lock_guard guard{mutex_};
    return how_;
  }

private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<const_bytes> parts_;   ///< guarded
  std::optional<result<void>> how_; ///< guarded
};

} // namespace millrace::confined

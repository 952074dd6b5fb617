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

/// A stage's weights on their way, from the threads that bring them to the one
/// that waits for them.
class arrival {
public:
  /// These are there.
  void add(const_bytes part) {
    {
      std::lock_guard guard{mutex_};
      parts_.push_back(part);
    }
    changed_.notify_all();
  }

  /// All of them are, or never will be. The first to say so counts.
  void end(result<void> how) {
    {
      std::lock_guard guard{mutex_};
      if (!how_)
        how_ = std::move(how);
    }
    changed_.notify_all();
  }

  /// Waits until then for the next part, or the end of it.
  std::optional<const_bytes> next(timestamp until) {
    std::unique_lock guard{mutex_};
    changed_.wait_until(guard, until, [&] { return how_ || !parts_.empty(); });
    if (how_ || parts_.empty())
      return std::nullopt;
    auto out = parts_.front();
    parts_.pop_front();
    return out;
  }

  /// How that has ended, if it has.
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
